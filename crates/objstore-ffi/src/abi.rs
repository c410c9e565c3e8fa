//! Rust copies of the C structs of engine/bridge/objstore.h, field by field, and functions that convert
//! between C and Rust values.

use objstore::{Code, Interrupt, Level, StoreError, Wish};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;

/// The C struct `atoll_result`.
#[repr(C)]
pub struct AtollResult {
    /// The number of an `atoll::Code`.
    pub code: u8,
    /// A text for people: NUL-terminated UTF-8, empty on success. The bytes after the NUL are not
    /// initialised, because clearing a kilobyte in each call would cost more than finding a part in the
    /// cache.
    pub message: [MaybeUninit<c_char>; 1023],
}

/// The C struct `atoll_store_config`.
#[repr(C)]
#[allow(missing_docs)]
pub struct AtollStoreConfig {
    pub url: *const c_char,
    pub endpoint: *const c_char,
    pub region: *const c_char,
    pub access_key: *const c_char,
    pub secret_key: *const c_char,
    pub session_token: *const c_char,
    pub ca_file: *const c_char,
    pub addressing: *const c_char,
    pub sse: *const c_char,
    pub sse_kms_key_id: *const c_char,
    pub local_dir: *const c_char,
    pub cache_dir: *const c_char,
    pub server_id: *const c_char,
    pub cache_bytes: u64,
    pub backlog_bytes_max: u64,
    pub lag_bytes_max: u64,
    pub history_bytes_max: u64,
    pub history_retention_s: u32,
    pub lag_ms_max: u32,
    pub request_timeout_ms: u32,
    pub durability: u8,
    pub take_over: u8,
    pub log: Option<extern "C" fn(c_int, *const c_char)>,
    pub wish: Option<extern "C" fn() -> c_int>,
}

/// The C struct `atoll_read`.
#[repr(C)]
#[allow(missing_docs)]
pub struct AtollRead {
    pub offset: u64,
    pub length: u64,
    pub buffer: *mut c_char,
    pub read: u64,
    pub result: AtollResult,
}

/// The C struct `atoll_store_stats`.
#[repr(C)]
#[allow(missing_docs)]
pub struct AtollStoreStats {
    pub epoch: u64,
    pub requests_get: u64,
    pub requests_put: u64,
    pub requests_head: u64,
    pub requests_list: u64,
    pub requests_delete: u64,
    pub request_retries: u64,
    pub request_errors: u64,
    pub bytes_downloaded: u64,
    pub bytes_uploaded: u64,
    pub cache_bytes_used: u64,
    pub cache_hits: u64,
    pub cache_misses: u64,
    pub cache_evictions: u64,
    pub cache_corruptions: u64,
    pub upload_backlog_files: u64,
    pub upload_backlog_bytes: u64,
    pub publish_lag_ms: u64,
    pub wal_lag_ms: u64,
    pub wal_lag_bytes: u64,
    pub roots_published: u64,
    pub wal_chunks_shipped: u64,
    pub files: u64,
    pub files_bytes: u64,
    pub history_bytes: u64,
    pub history_s: u64,
    pub history_cuts: u64,
    pub fenced: u8,
    pub trim_disabled: u8,
    pub database_uuid: [c_char; 40],
    pub last_error: [c_char; 512],
}

/// The C struct `atoll_store_health`.
#[repr(C)]
#[allow(missing_docs)]
pub struct AtollStoreHealth {
    pub objects_missing: u64,
    pub last_error_ms: u64,
    pub last_commit_us: u64,
}

/// The C struct `atoll_snapshot`.
#[repr(C)]
#[allow(missing_docs)]
pub struct AtollSnapshot {
    pub name: *const c_char,
    pub kind: *const c_char,
    pub pin: *const c_char,
    pub creator: *const c_char,
    pub gtid_position: *const c_char,
    pub problem: *const c_char,
    pub created_ms: u64,
    pub commit_us: u64,
    pub binlog_file: u64,
    pub binlog_offset: u64,
    pub files: u64,
    pub shared_bytes: u64,
    pub alone_bytes: u64,
}

/// The C struct `atoll_kept_settings`.
#[repr(C)]
#[allow(missing_docs)]
pub struct AtollKeptSettings {
    pub number: u64,
    pub history_bytes_max: u64,
    pub former_until_ms: u64,
    pub history_retention_s: u32,
    pub former_retention_s: u32,
    pub schedule: [c_char; 256],
}

/// The callback of `atoll_store_list_snapshots` and `atoll_store_create_snapshot`.
pub(crate) type EachSnapshot = Option<extern "C" fn(context: *mut c_void, snapshot: *const AtollSnapshot)>;

/// The callback of `atoll_store_newest_gtids`.
pub(crate) type EachGtid =
    Option<extern "C" fn(context: *mut c_void, domain: u32, server: u32, sequence: u64)>;

/// The callback of `atoll_store_list_files`.
pub(crate) type EachFile = Option<extern "C" fn(context: *mut c_void, number: u64, size: u64)>;

impl AtollResult {
    /// The result of a call that succeeded; its message is empty.
    pub fn ok() -> Self {
        let mut message = [const { MaybeUninit::uninit() }; 1023];
        message[0] = MaybeUninit::new(0);
        Self { code: Code::Ok as u8, message }
    }

    /// Overwrites this result with `outcome`. For a success it writes only the code and an empty message, not
    /// the whole kilobyte.
    pub fn set(&mut self, outcome: Result<(), &StoreError>) {
        match outcome {
            Ok(()) => {
                self.code = Code::Ok as u8;
                self.message[0] = MaybeUninit::new(0);
            }
            Err(error) => *self = Self::error(error),
        }
    }

    /// The result of a failed call: the error's code and text.
    pub fn error(error: &StoreError) -> Self {
        Self::new(error.code(), &error.to_string())
    }

    /// A result with this code and message.
    pub fn new(code: Code, message: &str) -> Self {
        let mut result = Self::ok();
        result.code = code as u8;
        let mut text = [0; 1023];
        copy_text(message, &mut text);
        result.message = text.map(MaybeUninit::new);
        result
    }
}

impl From<Result<(), StoreError>> for AtollResult {
    fn from(outcome: Result<(), StoreError>) -> Self {
        match outcome {
            Ok(()) => Self::ok(),
            Err(error) => Self::error(&error),
        }
    }
}

/// Copies `text` into a C array, without inner NULs, and NUL-terminated. A text that is too long is cut
/// between two characters.
pub(crate) fn copy_text(text: &str, out: &mut [c_char]) {
    let room = out.len().saturating_sub(1);
    let mut length = text.len().min(room);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    let mut bytes = text.bytes().take(length).filter(|byte| *byte != 0);
    out.iter_mut().for_each(|slot| *slot = bytes.next().unwrap_or(0) as c_char);
}

/// Copies a C string. A null pointer gives an empty string.
///
/// # Safety
///
/// - `text` is null or points to a NUL-terminated string that stays unchanged during the call.
pub(crate) unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: `text` is not null, and the caller guarantees that it is NUL-terminated.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Makes a Rust log function from the C callback `log` of the configuration. Without a callback, nothing is
/// logged.
pub(crate) fn log_function(log: Option<extern "C" fn(c_int, *const c_char)>) -> objstore::LogFn {
    let Some(log) = log else { return objstore::log::silent() };
    std::sync::Arc::new(move |level: Level, message: &str| {
        let text = std::ffi::CString::new(message.replace('\0', " ")).unwrap_or_default();
        log(level as c_int, text.as_ptr());
    })
}

/// Makes an `Interrupt` from the C callback `wish` of the configuration, which returns `ATOLL_WISH_*`.
/// Without a callback, no wait is ever interrupted.
pub(crate) fn interrupt_function(wish: Option<extern "C" fn() -> c_int>) -> Interrupt {
    match wish {
        Some(wish) => Interrupt::asking(move || match wish() {
            0 => Wish::GoOn,
            2 => Wish::MakeWay,
            _ => Wish::Stop,
        }),
        None => Interrupt::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(chars: &[c_char]) -> String {
        let bytes: Vec<u8> = chars.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let mut out = [1 as c_char; 8];
        copy_text("aäöü\u{1F600}", &mut out);
        assert_eq!(shown(&out), "aäöü");
        assert_eq!(*out.last().unwrap(), 0);
        copy_text("a\0b", &mut out);
        assert_eq!(shown(&out), "ab");
        let result = AtollResult::new(Code::Fenced, &"x".repeat(5000));
        // SAFETY: AtollResult::new() initialises all bytes of the message.
        let message = result.message.map(|slot| unsafe { slot.assume_init() });
        assert_eq!((result.code, shown(&message).len()), (8, 1022));
    }

    #[test]
    fn sizes_match_the_c_compiler() {
        assert_eq!(std::mem::size_of::<AtollResult>(), 1024);
        assert_eq!(std::mem::size_of::<AtollRead>(), 32 + 1024);
        assert_eq!(std::mem::size_of::<AtollStoreStats>(), 27 * 8 + 2 + 40 + 512 + 6);
    }
}
