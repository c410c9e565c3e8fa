//! Helpers that the protocol's tests share, and tests of the whole protocol: models, simulation, fences, real
//! S3 servers.

pub(in crate::protocol) mod fencing_test;
pub(in crate::protocol) mod gc_model_test;
pub(in crate::protocol) mod model_test;
pub(in crate::protocol) mod s3_test;
pub(in crate::protocol) mod sim_checks;
pub(in crate::protocol) mod sim_lies_test;
pub(in crate::protocol) mod sim_test;
pub(in crate::protocol) mod sim_world;
pub(in crate::protocol) mod supervision_test;
pub(in crate::protocol) mod test_copies;
pub(in crate::protocol) mod test_db;
pub(in crate::protocol) mod test_found;
pub(in crate::protocol) mod test_random;
