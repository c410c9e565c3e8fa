//! Catches panics, so that none leaves a function of the C ABI.

use crate::abi::AtollResult;
use objstore::{Code, StoreError};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `call`. If it panics, returns `Code::Bug` with the text of the panic.
pub(crate) fn guarded(call: impl FnOnce() -> Result<(), StoreError>) -> AtollResult {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(outcome) => outcome.into(),
        Err(panic) => AtollResult::new(Code::Bug, &format!("a panic in the object layer: {}", text(&panic))),
    }
}

/// Runs `call`. If it panics, returns `fallback`.
pub(crate) fn guarded_or<T>(fallback: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(fallback)
}

fn text(panic: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "without a message".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_code() {
        let result = guarded(|| panic!("lost {}", "count"));
        assert_eq!(result.code, Code::Bug as u8);
        assert_eq!(guarded_or(7, || panic!("x")), 7);
        assert_eq!(guarded(|| Ok(())).code, 0);
    }
}
