//! Dates, times and zones (being built).

/// A time zone.
#[derive(Clone, Debug)]
pub struct TimeZone;

impl TimeZone {
    /// UTC.
    pub fn utc() -> TimeZone {
        TimeZone
    }

    /// A zone by name, as SET TIME ZONE takes it: `Europe/Berlin`, `+02`, `UTC`; None if unknown.
    pub fn named(_name: &str) -> Option<TimeZone> {
        todo!()
    }

    /// As SHOW TimeZone prints it.
    pub fn name(&self) -> &str {
        todo!()
    }
}
