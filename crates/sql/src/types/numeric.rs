//! numeric (being built).

/// A numeric value.
#[derive(Clone, Debug)]
pub enum Numeric {
    /// mantissa / 10^scale.
    Small {
        /// The digits.
        mantissa: i64,
        /// Digits after the point.
        scale: u16,
    },
    /// Beyond 64 bits.
    Big(std::sync::Arc<u8>),
}
