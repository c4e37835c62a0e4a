//! x
use super::VirtualRelation;
pub(super) static RELATIONS: &[&dyn VirtualRelation] = &[];
