//! Publishing a root: the publisher, and the file map that it writes into the root.

pub(in crate::protocol) mod compact;
pub(in crate::protocol) mod labels;
pub(in crate::protocol) mod local_map;
pub(in crate::protocol) mod map_record;
#[cfg(test)]
pub(in crate::protocol) mod map_record_test;
pub(in crate::protocol) mod map_writer;
#[cfg(test)]
pub(in crate::protocol) mod maps_test;
#[cfg(test)]
pub(in crate::protocol) mod publish_test;
pub(in crate::protocol) mod publisher;
pub(in crate::protocol) mod shared_notes;
