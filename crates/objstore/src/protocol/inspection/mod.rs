//! Shows people a database in a bucket, without owning it.

pub(in crate::protocol) mod diff;
pub(in crate::protocol) mod families;
pub(in crate::protocol) mod fsck;
#[cfg(test)]
pub(in crate::protocol) mod fsck_test;
pub(in crate::protocol) mod history_status;
pub(in crate::protocol) mod inspect;
#[cfg(test)]
pub(in crate::protocol) mod inspect_test;
pub(in crate::protocol) mod sharing;
#[cfg(test)]
mod sharing_test;
pub(in crate::protocol) mod snapshot_list;
pub(in crate::protocol) mod space;
#[cfg(test)]
pub(in crate::protocol) mod space_test;
pub(in crate::protocol) mod table_names;
pub(in crate::protocol) mod tail;
#[cfg(test)]
pub(in crate::protocol) mod tail_test;
pub(in crate::protocol) mod verify;
#[cfg(test)]
pub(in crate::protocol) mod verify_test;
