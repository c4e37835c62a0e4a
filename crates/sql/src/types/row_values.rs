//! A row on its way out of an execution.
//!
//! Invariants: values are where their maker has them, and are not copied on the way: side by side, or
//! in slots of a frame, of which two columns may have the same.

use super::Datum;

/// The values of a row, in the order of its columns.
#[derive(Clone, Copy, Debug)]
pub struct RowValues<'r> {
    values: &'r [Datum],
    // Which of them, if not all in their order.
    slots: Option<&'r [u32]>,
}

impl<'r> RowValues<'r> {
    /// The values in these slots of a frame.
    ///
    /// Reading one panics if the frame does not have the slot.
    #[inline]
    pub fn in_slots(frame: &'r [Datum], slots: &'r [u32]) -> RowValues<'r> {
        RowValues { values: frame, slots: Some(slots) }
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.map_or(self.values.len(), <[u32]>::len)
    }

    /// Are there none?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'r Datum> + use<'r> {
        let row = *self;
        (0..row.len()).map(move |column| match row.slots {
            Some(slots) => &row.values[slots[column] as usize],
            None => &row.values[column],
        })
    }

    /// Copies of the values, to be kept.
    pub fn to_boxed(&self) -> Box<[Datum]> {
        self.iter().cloned().collect()
    }
}

impl<'r> From<&'r [Datum]> for RowValues<'r> {
    fn from(values: &'r [Datum]) -> RowValues<'r> {
        RowValues { values, slots: None }
    }
}

impl<'r, const N: usize> From<&'r [Datum; N]> for RowValues<'r> {
    fn from(values: &'r [Datum; N]) -> RowValues<'r> {
        RowValues::from(values.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_in_the_order_of_the_columns() {
        let frame = ["a", "b", "c"].map(Datum::text);
        let shown = |row: RowValues<'_>| -> Vec<String> {
            row.iter().map(|value| value.as_str().to_owned()).collect()
        };
        assert_eq!(shown(RowValues::in_slots(&frame, &[2, 0, 2])), ["c", "a", "c"]);
        let all = RowValues::from(&frame);
        assert_eq!((all.len(), shown(all)), (3, vec!["a".into(), "b".into(), "c".into()]));
        assert_eq!(shown(RowValues::from(&*all.to_boxed())), ["a", "b", "c"]);
        assert!(RowValues::in_slots(&frame, &[]).is_empty());
    }
}
