//! The border to C++: owned buffers, statuses, and the net that catches panics.
//! Every `extern "C"` function of the crate goes through [`guard`].
use std::any::Any;
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::Once;

pub const OK: i32 = 0;
pub const INVALID: i32 = 1;
pub const CORRUPT: i32 = 2;
pub const NOT_FOUND: i32 = 3;
pub const TOO_LARGE: i32 = 4;
pub const INTERNAL: i32 = 5;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slice {
    data: *const u8,
    len: usize,
}

#[repr(C)]
pub struct Bytes {
    data: *mut u8,
    len: usize,
    capacity: usize,
}

#[repr(C)]
pub struct Ids {
    data: *mut u32,
    len: usize,
    capacity: usize,
}

#[derive(Debug)]
pub struct Fault {
    pub code: i32,
    pub message: String,
}

pub type Outcome<T> = Result<T, Fault>;

pub fn fault<T>(code: i32, message: impl Into<String>) -> Outcome<T> {
    Err(Fault { code, message: message.into() })
}

static LIVE: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

impl Slice {
    /// # Safety
    /// `data` must point to `len` readable bytes (or `len` be 0) for as long as the result is used.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.len == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(self.data, self.len)
        }
    }

    /// # Safety
    /// As for [`Slice::bytes`].
    pub unsafe fn text<'a>(self, what: &str) -> Outcome<&'a str> {
        std::str::from_utf8(self.bytes()).or_else(|e| {
            fault(INVALID, format!("{what} is not valid UTF-8 (first bad byte at offset {})", e.valid_up_to()))
        })
    }
}

impl Bytes {
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        if bytes.capacity() == 0 {
            return Bytes { data: std::ptr::null_mut(), len: 0, capacity: 0 };
        }
        LIVE.fetch_add(1, Ordering::Relaxed);
        let mut bytes = std::mem::ManuallyDrop::new(bytes);
        Bytes { data: bytes.as_mut_ptr(), len: bytes.len(), capacity: bytes.capacity() }
    }
}

impl Ids {
    pub fn from_vec(ids: Vec<u32>) -> Self {
        if ids.capacity() == 0 {
            return Ids { data: std::ptr::null_mut(), len: 0, capacity: 0 };
        }
        LIVE.fetch_add(1, Ordering::Relaxed);
        let mut ids = std::mem::ManuallyDrop::new(ids);
        Ids { data: ids.as_mut_ptr(), len: ids.len(), capacity: ids.capacity() }
    }
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_bytes_free(bytes: Bytes) {
    if bytes.capacity != 0 {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        drop(Vec::from_raw_parts(bytes.data, bytes.len, bytes.capacity));
    }
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_ids_free(ids: Ids) {
    if ids.capacity != 0 {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        drop(Vec::from_raw_parts(ids.data, ids.len, ids.capacity));
    }
}

#[no_mangle]
pub extern "C" fn quire_text_live_objects() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// Gives `value` to C++ as an owned handle.
pub fn give<T>(value: T) -> *mut T {
    LIVE.fetch_add(1, Ordering::Relaxed);
    Box::into_raw(Box::new(value))
}

/// Takes a handle back and drops it. A panic in a destructor must not cross the border either.
///
/// # Safety
/// `handle` is null or came from [`give`] and was not taken back before.
pub unsafe fn take_back<T>(handle: *mut T) {
    if !handle.is_null() {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(handle))));
    }
}

/// While it lives, panics of this thread are caught by somebody and not printed.
pub struct Inside;

impl Inside {
    pub fn enter() -> Self {
        INSIDE.with(|n| n.set(n.get() + 1));
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with(|n| n.set(n.get() - 1));
    }
}

/// Runs `body`; a fault or a panic becomes a status and a sentence in `*error`.
///
/// # Safety
/// `error` is null or points to a writable `Bytes`.
pub unsafe fn guard(error: *mut Bytes, body: impl FnOnce() -> Outcome<()>) -> i32 {
    silence_our_panics();
    let inside = Inside::enter();
    let result = catch_unwind(AssertUnwindSafe(body));
    drop(inside);
    let failure = match result {
        Ok(Ok(())) => return OK,
        Ok(Err(failure)) => failure,
        Err(panic) => Fault { code: INTERNAL, message: format!("a text library panicked: {}", panic_words(panic.as_ref())) },
    };
    if !error.is_null() {
        error.write(Bytes::from_vec(failure.message.into_bytes()));
    }
    failure.code
}

pub fn panic_words(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no words")
}

/// A caught panic is reported as an error; printing it as well would only frighten whoever reads the log.
fn silence_our_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if INSIDE.with(Cell::get) == 0 {
                previous(info);
            }
        }));
    });
}
