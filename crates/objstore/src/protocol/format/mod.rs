//! The format of the bucket: the names of objects, the frame and the content of records, create-only slots,
//! and a reader of one published root.

pub(in crate::protocol) mod alive_record;
pub(in crate::protocol) mod codec;
#[cfg(test)]
pub(in crate::protocol) mod fixtures_test;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
#[cfg(test)]
pub(in crate::protocol) mod fuzzing_test;
pub(in crate::protocol) mod image;
pub(in crate::protocol) mod names;
pub(in crate::protocol) mod records;
#[cfg(test)]
pub(in crate::protocol) mod records_test;
pub(in crate::protocol) mod settings_record;
pub(in crate::protocol) mod slots;
