//! Fields that hold their default are left out of stored records.
//!
//! A job has more than a hundred fields and most requests set ten of them: journal and checkpoints shrink to a third, and a
//! restart reads that much less. Invariant: every field that is left out has `#[serde(default)]`, on itself or on its struct.

/// The value is its type's default; for `#[serde(skip_serializing_if)]`.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
