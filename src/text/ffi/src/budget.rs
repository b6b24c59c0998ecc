//! Bounds for libraries that build strings and lists for a stranger's program (a chat template) and cannot be asked for any: on memory, where an
//! allocation past the bound fails and failing unwinds to who set it; and on recursion, where a thread of its own has a stack that values nested
//! as deep as the memory allows can be dropped on. Frees of memory from before the bound count in its favour; they are few.
use crate::border;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::thread;

/// No bound.
const NONE: isize = isize::MAX;

thread_local! {
    static LEFT: Cell<isize> = const { Cell::new(NONE) };
}

/// Address space, taken page by page as it is used. A value nested in another costs some hundred bytes to drop, and more instructions to make
/// than a template has for what fits here.
const STACK_BYTES: usize = 1 << 30;

pub enum Failure {
    Memory,           // the bound was passed
    Thread(io::Error),  // there is none to be had
}

/// The bound was passed.
struct Spent;

/// Runs `body` on a thread of its own, with `bytes` for all that it holds at a time.
pub fn within<T: Send>(bytes: usize, body: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    install_hook();
    let bounded = || {
        let _inside = border::Inside::enter();
        LEFT.with(|left| left.set(isize::try_from(bytes).unwrap_or(NONE)));
        let result = catch_unwind(AssertUnwindSafe(body));
        LEFT.with(|left| left.set(NONE));
        result
    };
    let result = thread::scope(|scope| {
        let spawned = thread::Builder::new().name("template".into()).stack_size(STACK_BYTES).spawn_scoped(scope, bounded);
        spawned.map(|running| running.join().and_then(|result| result))
    });
    match result {
        Err(error) => Err(Failure::Thread(error)),
        Ok(Ok(value)) => Ok(value),
        Ok(Err(panic)) if panic.is::<Spent>() => Err(Failure::Memory),
        Ok(Err(panic)) => resume_unwind(panic),
    }
}

#[cfg(alloc_error_hook)]
fn install_hook() {
    use std::sync::Once;
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = OTHERWISE.set(std::alloc::take_alloc_error_hook());
        std::alloc::set_alloc_error_hook(on_failure);
    });
}

#[cfg(alloc_error_hook)]
static OTHERWISE: std::sync::OnceLock<fn(Layout)> = std::sync::OnceLock::new();

/// A failure without a bound is the system's: it ends the process, with the words of the hook that was there.
#[cfg(alloc_error_hook)]
fn on_failure(layout: Layout) {
    if LEFT.with(|left| left.replace(NONE)) != NONE {
        std::panic::panic_any(Spent);
    }
    if let Some(otherwise) = OTHERWISE.get() {
        otherwise(layout);
    }
}

#[cfg(not(alloc_error_hook))]
fn install_hook() {}

/// Whether `more` bytes are still allowed; they are taken then.
fn take(more: usize) -> bool {
    if cfg!(not(alloc_error_hook)) {
        return true;
    }
    LEFT.try_with(|left| match left.get() {
        NONE => true,
        now => match isize::try_from(more).ok().and_then(|more| now.checked_sub(more)) {
            Some(rest) if rest >= 0 => {
                left.set(rest);
                true
            }
            _ => false,
        },
    })
    .unwrap_or(true) // while the thread ends
}

fn give_back(bytes: usize) {
    let _ = LEFT.try_with(|left| {
        let now = left.get();
        if now != NONE {
            left.set(now.saturating_add_unsigned(bytes).min(NONE - 1));
        }
    });
}

struct Bounded;

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

// SAFETY: every block comes from System and goes back to it; a null pointer says that there is none.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if take(layout.size()) { System.alloc(layout) } else { std::ptr::null_mut() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if take(layout.size()) { System.alloc_zeroed(layout) } else { std::ptr::null_mut() }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        give_back(layout.size());
        System.dealloc(block, layout);
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() && !take(size - layout.size()) {
            return std::ptr::null_mut();
        }
        let moved = System.realloc(block, layout, size);
        if size < layout.size() {
            give_back(layout.size() - size);
        }
        moved
    }
}
