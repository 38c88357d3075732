//! Interruption of running statements: by a request (statement_timeout, cancel), or because of their memory use.
//!
//! A running statement is watched ([`Interrupts::watch`]). Code that may take long calls [`check`] once for each row, round of a loop or
//! piece of a text, like PostgreSQL's CHECK_FOR_INTERRUPTS; code that makes one large value calls [`room_for`] first. Without a watch
//! both do nothing. No clock is read: a request comes from another thread, and a simulation sets a number of steps instead.
//!
//! Statements run on the threads of the connections. When all of them compute, the watchdog asks for room ([`ask_for_room`]), and one of
//! the computing threads makes room.
//!
//! Memory is the number of bytes that the thread has allocated since the watch began and has not freed. The allocator of the process
//! reports them ([`on_allocated`], [`on_freed`]); without such an allocator only [`room_for`] has a limit.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::{SqlError, SqlState};

/// Names a statement at the machine that runs it: whose, which transaction, and which statement of that.
pub type StatementId = (u64, u64, u32);

/// A value takes no more than this, as in PostgreSQL.
pub const VALUE_BYTES_MAX: usize = 0x3fff_ffff;

/// Wishes that are remembered for statements which have not come to run yet.
const WISHES_MAX: usize = 1_024;

/// Number of checks that pass before the wishes are looked at.
const CHECKS_PER_LOOK: u32 = 256;

/// Bytes that are written or read in the time of one check.
pub(crate) const BYTES_PER_CHECK: usize = 1_024;

/// Looks of one piece of work: as many as a step of a shard has, so that long work is not done within one.
const LOOKS_OF_WORK_MAX: usize = 64;

/// Every statement may take so much without asking.
const FREE_BYTES: i64 = 4 << 20;

/// Size of the pieces in which a statement takes further memory from the pool.
const PIECE_BYTES: i64 = 4 << 20;

/// Memory limit of all statements of the process together, and the rest of it.
static POOL_MAX: AtomicI64 = AtomicI64::new(i64::MAX);
static POOL_LEFT: AtomicI64 = AtomicI64::new(i64::MAX);

/// All statements together may take no more memory than this, but for a little that each has. Before any of them runs.
pub fn set_memory_of_all(bytes: u64) {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    POOL_MAX.store(bytes, Ordering::Relaxed);
    POOL_LEFT.store(bytes, Ordering::Relaxed);
}

/// Connections wait for a thread while all of them compute.
static ROOM_WANTED: AtomicBool = AtomicBool::new(false);

/// Moves the other work of a computing thread to another thread.
static MAKE_ROOM: OnceLock<fn() -> bool> = OnceLock::new();

/// Makes room for others on a thread that runs a statement; returns whether it could. The first function that is given stays.
pub fn set_make_room(make_room: fn() -> bool) {
    MAKE_ROOM.get_or_init(|| make_room);
}

/// A thread that runs a statement makes room for others at its next look, or need not any more.
pub fn ask_for_room(is_wanted: bool) {
    ROOM_WANTED.store(is_wanted, Ordering::Relaxed);
}

/// How much a statement may compute within one step, in units of 256 checks. With a budget of 0 it stops at its first check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(pub u32);

/// The wishes that statements of one machine end, and what bounds them all.
#[derive(Debug)]
pub struct Interrupts {
    wishes: Mutex<VecDeque<(StatementId, SqlError)>>,
    /// Number of wishes so far: a wish that was looked at once need not be looked at again.
    count: AtomicU64,
    /// Every statement ends with that from here on.
    over: OnceLock<SqlError>,
    memory_bytes_max: AtomicU64,
    looks_max: AtomicU64,
}

impl Default for Interrupts {
    fn default() -> Interrupts {
        Interrupts {
            wishes: Mutex::default(),
            count: AtomicU64::new(0),
            over: OnceLock::new(),
            memory_bytes_max: AtomicU64::new(u64::MAX),
            looks_max: AtomicU64::new(u64::MAX),
        }
    }
}

impl Interrupts {
    /// The statement ends with this error at its next look, also if it has not begun.
    pub fn interrupt(&self, statement: StatementId, error: SqlError) {
        let mut wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        if wishes.iter().any(|(of, _)| *of == statement) {
            return;
        }
        if wishes.len() == WISHES_MAX {
            wishes.pop_front();
        }
        wishes.push_back((statement, error));
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Every statement ends with this error at its next look, those that are to come too.
    pub fn interrupt_all(&self, error: SqlError) {
        self.over.get_or_init(|| error);
        self.count.fetch_add(1, Ordering::Release);
    }

    /// A statement may take no more memory than this.
    pub fn set_memory_max(&self, bytes: u64) {
        self.memory_bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// A statement may take no more steps than this, where time is simulated.
    pub fn set_steps_max(&self, steps: u64) {
        self.looks_max.store(steps / u64::from(CHECKS_PER_LOOK) + 1, Ordering::Relaxed);
    }

    fn wish_for(&self, statement: StatementId) -> Option<SqlError> {
        if let Some(error) = self.over.get() {
            return Some(error.clone());
        }
        let wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        wishes.iter().find(|(of, _)| *of == statement).map(|(_, error)| error.clone())
    }

    /// This thread runs the statement until the watch is dropped.
    #[must_use]
    pub fn watch(self: &Arc<Interrupts>, statement: StatementId) -> Watch {
        self.watch_within(statement, None)
    }

    /// Like [`Interrupts::watch`]; the statement stops once it has made the budget's checks ([`Watch::has_spent_its_budget`]). None: no budget.
    #[must_use]
    pub fn watch_within(self: &Arc<Interrupts>, statement: StatementId, budget: Option<Budget>) -> Watch {
        let memory_bytes_max =
            i64::try_from(self.memory_bytes_max.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        let looks_left = self.looks_max.load(Ordering::Relaxed);
        let interrupts =
            SPARE.take().filter(|spare| Arc::ptr_eq(spare, self)).unwrap_or_else(|| self.clone());
        let base = ALLOCATED.get();
        let budget = budget.map(|Budget(looks)| looks);
        let watched = Watched {
            interrupts,
            statement,
            seen: 0,
            memory_bytes_max,
            base,
            granted: 0,
            looks_left,
            budget,
            is_spent: false,
        };
        let memory_max = base.saturating_add(memory_bytes_max.min(FREE_BYTES));
        Watch {
            watched: WATCHED.replace(Some(watched)),
            memory_max: MEMORY_MAX.replace(memory_max),
            checks_left: CHECKS_LEFT.replace(0),
        }
    }
}

struct Watched {
    interrupts: Arc<Interrupts>,
    statement: StatementId,
    /// Number of wishes at the last look.
    seen: u64,
    memory_bytes_max: i64,
    /// Bytes that the thread had allocated at the beginning.
    base: i64,
    /// Bytes taken from the pool.
    granted: i64,
    looks_left: u64,
    /// Rest of its budget, in looks.
    budget: Option<u32>,
    /// It has stopped because of its budget.
    is_spent: bool,
}

impl Watched {
    /// The thread may have allocated so much. A statement with a budget that may not has spent it: without one it may need less memory, for it
    /// may write to files.
    ///
    /// # Errors
    /// The statement would have taken more than it may, or all together would.
    fn grow(&mut self, upto: i64, request: Option<usize>) -> Result<(), SqlError> {
        let grown = self.grow_within_limits(upto, request);
        if grown.is_err() && self.budget.is_some() {
            (self.budget, self.is_spent) = (Some(0), true);
            CHECKS_LEFT.set(0);
        }
        grown
    }

    fn grow_within_limits(&mut self, upto: i64, request: Option<usize>) -> Result<(), SqlError> {
        let used = upto.saturating_sub(self.base);
        if used > self.memory_bytes_max {
            return Err(out_of_memory(self.memory_bytes_max, request));
        }
        let missing = (used - FREE_BYTES - self.granted).max(0);
        let piece = missing.div_euclid(PIECE_BYTES).saturating_add(1).saturating_mul(PIECE_BYTES);
        let take = |left: i64| (left >= piece).then_some(left - piece);
        POOL_LEFT
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .map_err(|left| out_of_memory_of_all(POOL_MAX.load(Ordering::Relaxed), left))?;
        self.granted += piece;
        let most = (FREE_BYTES + self.granted).min(self.memory_bytes_max);
        MEMORY_MAX.set(self.base.saturating_add(most));
        Ok(())
    }
}

thread_local! {
    static WATCHED: RefCell<Option<Watched>> = const { RefCell::new(None) };
    /// Interrupts of the last watch that ended, reused by the next one, so that threads do not contend for one reference count.
    static SPARE: RefCell<Option<Arc<Interrupts>>> = const { RefCell::new(None) };
    /// Bytes that this thread has allocated and not freed; negative if it frees allocations of other threads.
    static ALLOCATED: Cell<i64> = const { Cell::new(0) };
    /// Limit of `ALLOCATED`.
    static MEMORY_MAX: Cell<i64> = const { Cell::new(i64::MAX) };
    static CHECKS_LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
    static PAUSE: RefCell<Option<Rc<AtChecks>>> = const { RefCell::new(None) };
    /// Checks pass without a look; see [`uninterrupted`].
    static IS_UNINTERRUPTED: Cell<bool> = const { Cell::new(false) };
}

/// A function that a worker calls at its checks. Its error ends the statement.
pub type AtChecks = dyn Fn() -> Result<(), SqlError>;

/// Sets what this thread does at its checks, besides looking at interrupts, until the value is dropped: a worker lets its shard take turns.
#[must_use]
pub fn pause_with(pause: Rc<AtChecks>) -> Pausing {
    PAUSE.set(Some(pause));
    Pausing
}

/// See [`pause_with`].
#[derive(Debug)]
pub struct Pausing;

impl Drop for Pausing {
    fn drop(&mut self) {
        PAUSE.set(None);
    }
}

/// While it lives, the thread runs a statement. It puts back what the thread ran before.
#[derive(Debug)]
pub struct Watch {
    watched: Option<Watched>,
    memory_max: i64,
    checks_left: u32,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Watched").field(&self.statement).finish()
    }
}

impl Watch {
    /// Returns whether the statement has stopped because of its budget. Its result is void, even if there is one: an expression may have taken
    /// the error for its own. It must be rolled back, and run again without a budget. Only for the thread's innermost watch.
    pub fn has_spent_its_budget(&self) -> bool {
        WATCHED.with_borrow(|watched| watched.as_ref().is_some_and(|watched| watched.is_spent))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(ended) = WATCHED.replace(self.watched.take()) {
            if ended.granted > 0 {
                POOL_LEFT.fetch_add(ended.granted, Ordering::AcqRel);
            }
            SPARE.set(Some(ended.interrupts));
        }
        MEMORY_MAX.set(self.memory_max);
        CHECKS_LEFT.set(self.checks_left);
    }
}

/// Ends the statement that this thread runs if it is to end.
///
/// # Errors
/// The requested error (57014, 57P01), or 53200.
#[inline]
pub fn check() -> Result<(), SqlError> {
    let left = CHECKS_LEFT.get();
    if left == 0 || ALLOCATED.get() > MEMORY_MAX.get() {
        return look();
    }
    CHECKS_LEFT.set(left - 1);
    Ok(())
}

/// Like [`check`], before work that takes as long as so many pieces with a check each.
///
/// # Errors
/// As [`check`].
pub fn check_work(pieces: usize) -> Result<(), SqlError> {
    check()?;
    for _ in 0..(pieces / CHECKS_PER_LOOK as usize).min(LOOKS_OF_WORK_MAX) {
        look()?;
    }
    let rest = (pieces % CHECKS_PER_LOOK as usize) as u32;
    CHECKS_LEFT.set(CHECKS_LEFT.get().saturating_sub(rest));
    Ok(())
}

/// Bytes that this thread has allocated and not freed.
pub fn allocated() -> i64 {
    ALLOCATED.get()
}

/// Bytes that this thread has allocated are another's from now on, and no longer its statement's.
pub fn pass_on(bytes: i64) {
    ALLOCATED.set(ALLOCATED.get() - bytes);
}

/// Like [`check`], and looks at the wishes now.
///
/// # Errors
/// As [`check`].
pub fn check_now() -> Result<(), SqlError> {
    look()
}

/// Calls `work`, whose checks pass. They are counted, so the next check afterwards looks if one of them would have. For short work that
/// cannot fail or that borrows what a pause needs, such as reading a stored value.
pub fn uninterrupted<R>(work: impl FnOnce() -> R) -> R {
    struct Restored(bool);
    impl Drop for Restored {
        fn drop(&mut self) {
            IS_UNINTERRUPTED.set(self.0);
        }
    }
    let _restored = Restored(IS_UNINTERRUPTED.replace(true));
    work()
}

#[cold]
fn look() -> Result<(), SqlError> {
    if IS_UNINTERRUPTED.get() {
        return Ok(());
    }
    if ROOM_WANTED.load(Ordering::Relaxed) && MAKE_ROOM.get().is_some_and(|make_room| make_room()) {
        ask_for_room(false);
    }
    let pause = PAUSE.with_borrow(Option::clone);
    if let Some(pause) = pause {
        pause().inspect_err(|_| CHECKS_LEFT.set(0))?;
    }
    WATCHED.with_borrow_mut(|watched| {
        let Some(watched) = watched else {
            CHECKS_LEFT.set(u32::MAX);
            return Ok(());
        };
        CHECKS_LEFT.set(CHECKS_PER_LOOK);
        if ALLOCATED.get() > MEMORY_MAX.get() {
            watched.grow(ALLOCATED.get(), None)?;
        }
        let count = watched.interrupts.count.load(Ordering::Acquire);
        if count != watched.seen {
            if let Some(error) = watched.interrupts.wish_for(watched.statement) {
                // The next check fails again if the caller continues after the error.
                CHECKS_LEFT.set(0);
                return Err(error);
            }
            watched.seen = count;
        }
        match watched.budget.map(|left| left.checked_sub(1)) {
            None => {}
            Some(Some(left)) => watched.budget = Some(left),
            Some(None) => {
                watched.is_spent = true;
                CHECKS_LEFT.set(0);
                let message = "the statement needs more than one step of its shard";
                return Err(SqlError::new(SqlState::QUERY_CANCELED, message));
            }
        }
        match watched.looks_left.checked_sub(1) {
            Some(left) => watched.looks_left = left,
            None => {
                let message = "canceling statement due to the number of its steps";
                return Err(SqlError::new(SqlState::QUERY_CANCELED, message));
            }
        }
        Ok(())
    })
}

/// Checks that a value of that many bytes may be made.
///
/// # Errors
/// 54000 if it is longer than a value may be, 53200 if the statement may not take so much.
pub fn room_for(bytes: usize) -> Result<(), SqlError> {
    room_for_more(bytes, bytes)
}

/// Checks that a value which is being made may have that many bytes, of which it has all but those that are added.
///
/// # Errors
/// As [`room_for`].
pub fn room_for_more(bytes: usize, added: usize) -> Result<(), SqlError> {
    if bytes > VALUE_BYTES_MAX {
        let message = format!("invalid memory alloc request size {bytes}");
        return Err(
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_detail("A value has at most 1 GB.")
        );
    }
    memory_for(added)
}

/// Checks that the statement may take that many bytes, for whatever it needs them.
///
/// # Errors
/// 53200.
pub fn memory_for(bytes: usize) -> Result<(), SqlError> {
    check_work(bytes / BYTES_PER_CHECK)?;
    let after = ALLOCATED.get().saturating_add(bytes as i64);
    match after > MEMORY_MAX.get() {
        true => WATCHED.with_borrow_mut(|watched| match watched {
            Some(watched) => watched.grow(after, Some(bytes)),
            None => Err(out_of_memory(0, Some(bytes))),
        }),
        false => Ok(()),
    }
}

fn out_of_memory(most: i64, request: Option<usize>) -> SqlError {
    let detail = match request {
        Some(bytes) => format!("Failed on request of size {bytes}: a statement may take {most} bytes."),
        None => format!("The statement has taken more than {most} bytes."),
    };
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory").with_detail(detail).with_hint(
        "let the statement keep fewer rows at once, or start the server with a larger --statement-memory",
    )
}

fn out_of_memory_of_all(most: i64, left: i64) -> SqlError {
    let taken = most - left;
    let detail =
        format!("Statements that run now have taken {taken} of the {most} bytes that all together may take.");
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
        .with_detail(detail)
        .with_hint("run fewer large statements at once, or start the server with a larger --memory")
}

/// Reports an allocation of the thread, in bytes. Only for the allocator of the process.
#[inline]
pub fn on_allocated(bytes: usize) {
    // A thread that ends may have no such cell any more.
    let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get().wrapping_add(bytes as i64)));
}

/// Reports freed memory of the thread, in bytes. Only for the allocator of the process.
#[inline]
pub fn on_freed(bytes: usize) {
    let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get().wrapping_sub(bytes as i64)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(most: u32) -> Option<SqlError> {
        (0..most).find_map(|_| check().err())
    }

    #[test]
    fn a_statement_ends_by_a_wish_for_it_and_by_no_other() {
        let interrupts = Arc::new(Interrupts::default());
        let wish = |id| interrupts.interrupt(id, SqlError::new(SqlState::QUERY_CANCELED, "ended"));
        wish((1, 7, 0));
        assert_eq!(ends(2_000), None, "nobody watches");
        let watch = interrupts.watch((1, 8, 0));
        assert_eq!(ends(2_000), None);
        wish((1, 8, 0));
        assert_eq!(ends(2_000).map(|error| error.state()), Some(SqlState::QUERY_CANCELED));
        assert!(check().is_err(), "it goes on being ended");
        {
            let _inner = interrupts.watch((2, 1, 0));
            assert_eq!(ends(2_000), None);
        }
        assert!(ends(2_000).is_some());
        drop(watch);
        assert_eq!(ends(2_000), None);
        let _before = interrupts.watch((1, 7, 0));
        assert!(ends(1).is_some(), "a wish from before it began");
    }

    #[test]
    fn work_counts_as_its_pieces() {
        let interrupts = Arc::new(Interrupts::default());
        let watch = interrupts.watch_within((1, 4, 0), Some(Budget(10)));
        assert_eq!((0..4).find_map(|_| check_work(300).err()), None);
        assert!(check_work(3_000).is_err());
        assert!(watch.has_spent_its_budget());
        drop(watch);
        assert_eq!(check_work(usize::MAX), Ok(()), "nobody watches");
    }

    /// Two statements of two threads share what there is.
    fn what_all_take(interrupts: &Arc<Interrupts>) {
        const LARGE: usize = 40 << 20;
        set_memory_of_all(64 << 20);
        let runs = |statement| {
            let watch = interrupts.watch((3, statement, 0));
            on_allocated(LARGE);
            let ended = check();
            on_freed(LARGE);
            (ended.map_err(|error| (error.state(), error.fields().hint.is_some())), watch)
        };
        let (first, watch) = runs(1);
        assert_eq!(first, Ok(()));
        let other = || std::thread::scope(|scope| scope.spawn(|| runs(2).0).join().unwrap());
        assert_eq!(other(), Err((SqlState::OUT_OF_MEMORY, true)));
        assert_eq!(room_for(20 << 20), Ok(()), "the first goes on");
        drop(watch);
        assert_eq!(other(), Ok(()));
        assert_eq!(POOL_LEFT.load(Ordering::Relaxed), 64 << 20, "all is given back");
        set_memory_of_all(u64::MAX);
    }

    #[test]
    fn a_statement_ends_with_its_memory_and_its_steps() {
        let interrupts = Arc::new(Interrupts::default());
        interrupts.set_memory_max(1_000_000);
        let watch = interrupts.watch((1, 1, 0));
        assert_eq!(room_for(999_000), Ok(()));
        assert_eq!(room_for(1_100_000).map_err(|error| error.state()), Err(SqlState::OUT_OF_MEMORY));
        assert_eq!(room_for(1 << 30).map_err(|error| error.state()), Err(SqlState::PROGRAM_LIMIT_EXCEEDED));
        on_allocated(1_000_001);
        assert_eq!(check().map_err(|error| error.state()), Err(SqlState::OUT_OF_MEMORY));
        on_freed(1_000_001);
        assert_eq!(ends(2_000), None);
        drop(watch);
        interrupts.set_memory_max(u64::MAX);
        what_all_take(&interrupts);
        interrupts.set_steps_max(10_000);
        let _watch = interrupts.watch((1, 2, 0));
        assert_eq!(ends(5_000), None);
        assert!(ends(10_000).is_some());
    }

    /// It is run again without a budget, and may write to files then.
    #[test]
    fn a_statement_whose_budget_is_too_small_a_memory_has_spent_it() {
        let interrupts = Arc::new(Interrupts::default());
        interrupts.set_memory_max(1_000_000);
        let watch = interrupts.watch_within((1, 3, 0), Some(Budget(1_000)));
        assert_eq!(ends(2_000), None);
        assert!(!watch.has_spent_its_budget());
        assert_eq!(room_for(1_100_000).map_err(|error| error.state()), Err(SqlState::OUT_OF_MEMORY));
        assert!(watch.has_spent_its_budget());
        assert_eq!(
            check().map_err(|error| error.state()),
            Err(SqlState::QUERY_CANCELED),
            "every later check"
        );
        drop(watch);
        let watch = interrupts.watch((1, 3, 0));
        assert!(room_for(1_100_000).is_err());
        assert!(!watch.has_spent_its_budget(), "it has none");
    }
}
