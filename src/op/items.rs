//! The items of a batch: what became of each, and which of them a request carries.

use super::Operation;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The most items of one batch: they are counted in 32 bits.
pub const MOST_ITEMS: usize = 1 << 30;

/// What of an operation a request carries.
#[derive(Clone)]
pub enum Part {
    /// A part of the only thing that is asked for.
    Whole,
    /// A part of this item of a batch.
    Item(u32),
    /// Parts of these items, wherever they lie in the request.
    Spans(Arc<[Span]>),
}

/// Where a part of an item lies in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which item of the batch.
    pub item: u32,
    /// Bytes of the request before it.
    pub at: u64,
    /// Its bytes.
    pub len: u64,
}

/// Called for each item as it ends, where completions run, before the completion.
pub type ItemTold = Box<dyn Fn(usize, &ItemResult<'_>) + Send + Sync>;

/// How an item ended.
#[derive(Clone, Copy, Debug)]
pub struct ItemResult<'a> {
    /// `None`: every byte is in its place. Items that failed for one reason share it.
    pub error: Option<&'a Arc<Error>>,
    /// Bytes now in the item's buffer.
    pub bytes: u64,
    /// Requests sent for it, retries included.
    pub attempts: u32,
    /// Offset of the first byte in the object.
    pub offset: u64,
}

/// One item. 40 bytes: there may be millions.
struct Item {
    /// Requests that are not over.
    remaining: AtomicU32,
    attempts: AtomicU32,
    bytes: AtomicU64,
    offset: AtomicU64,
    error: OnceLock<Arc<Error>>,
}

/// The items of one batch, in the caller's order.
pub struct Items {
    items: Vec<Item>,
    told: Option<ItemTold>,
}

impl std::fmt::Debug for Items {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} items", self.items.len())
    }
}

impl Items {
    /// So many items without requests; `told` is called for each.
    ///
    /// # Errors
    /// OUT_OF_MEMORY, or INVALID_ARGUMENT: more than anybody needs.
    pub fn new(count: usize, told: Option<ItemTold>) -> Result<Items> {
        if count > MOST_ITEMS {
            return Err(Error::invalid(format!("a batch of {count} items; {MOST_ITEMS} are the limit")));
        }
        let mut items = Vec::new();
        items.try_reserve_exact(count).map_err(|_| {
            Error::new(ErrorKind::OutOfMemory, format!("no memory for a batch of {count} items; use smaller ones"))
        })?;
        items.resize_with(count, || Item {
            remaining: AtomicU32::new(0),
            attempts: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
            offset: AtomicU64::new(0),
            error: OnceLock::new(),
        });
        Ok(Items { items, told })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// One more request carries a part of this item.
    pub fn add_request(&self, item: u32) {
        self.items[item as usize].remaining.fetch_add(1, Ordering::Relaxed);
    }

    /// Where this item's first byte lies in its object.
    pub fn set_offset(&self, item: u32, offset: u64) {
        self.items[item as usize].offset.store(offset, Ordering::Relaxed);
    }

    /// This item fails, unless it has failed.
    pub fn fail(&self, item: u32, error: Arc<Error>) {
        // The first one counts.
        let _ = self.items[item as usize].error.set(error);
    }

    /// Requests that carry this item and are not over.
    pub(super) fn requests_left(&self, item: u32) -> u32 {
        self.items[item as usize].remaining.load(Ordering::Relaxed)
    }

    /// How this item ended, or what has become of it so far.
    pub fn result(&self, item: usize) -> ItemResult<'_> {
        let item = &self.items[item];
        ItemResult {
            error: item.error.get(),
            bytes: item.bytes.load(Ordering::Relaxed),
            attempts: item.attempts.load(Ordering::Relaxed),
            offset: item.offset.load(Ordering::Relaxed),
        }
    }

    /// How each ended, in the caller's order.
    pub fn results(&self) -> impl ExactSizeIterator<Item = ItemResult<'_>> {
        (0..self.items.len()).map(|item| self.result(item))
    }

    pub(super) fn add_attempt(&self, part: &Part) {
        for item in part.items() {
            self.items[item as usize].attempts.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether nobody waits for this part any more.
    pub(super) fn have_failed(&self, part: &Part) -> bool {
        let mut items = part.items().peekable();
        items.peek().is_some() && items.all(|item| self.items[item as usize].error.get().is_some())
    }

    /// More requests carry this part than it seemed.
    pub(super) fn add_requests(&self, part: &Part, more: u32) {
        for item in part.items() {
            self.items[item as usize].remaining.fetch_add(more, Ordering::Relaxed);
        }
    }
}

impl Part {
    /// The items that it belongs to.
    pub fn items(&self) -> impl Iterator<Item = u32> {
        let (one, many) = match self {
            Part::Whole => (None, &[][..]),
            Part::Item(item) => (Some(*item), &[][..]),
            Part::Spans(spans) => (None, &spans[..]),
        };
        one.into_iter().chain(many.iter().map(|span| span.item))
    }
}

impl Operation {
    /// A request of a batch is over: `bytes` of its `len` are where the caller wants them. What lies in them wholly is well,
    /// whatever became of the rest.
    pub(super) fn finish_part(self: &Arc<Self>, items: &Items, part: &Part, bytes: u64, len: u64, result: Result<()>) {
        let one;
        let spans: &[Span] = match part {
            Part::Whole => &[],
            Part::Item(item) => {
                one = [Span { item: *item, at: 0, len }];
                &one
            }
            Part::Spans(spans) => spans,
        };
        let mut why: Option<Arc<Error>> = None;
        let mut cause = result.err();
        let mut ended = Vec::new();
        let (mut over, mut left) = (0, false);
        for span in spans {
            let item = &items.items[span.item as usize];
            let here = bytes.saturating_sub(span.at).min(span.len);
            item.bytes.fetch_add(here, Ordering::Relaxed);
            self.bytes.fetch_add(here, Ordering::Relaxed);
            if here < span.len && item.error.get().is_none() {
                // What ended the whole comes before what that did to a request.
                let why = why.get_or_insert_with(|| match cause.take().filter(|_| !self.is_over()) {
                    Some(error) => self.first_of_batch(Arc::new(error)),
                    None => self.why_over(),
                });
                items.fail(span.item, why.clone());
                left |= items.requests_left(span.item) > 1;
            }
            if item.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
                over += 1;
                if items.told.is_some() {
                    ended.push(span.item);
                }
            }
        }
        // What ended the whole has had them looked for.
        if left && !self.is_over() {
            self.sweep();
        }
        // A batch of nothing ends like one of something.
        let over = if items.is_empty() { 1 } else { over };
        if ended.is_empty() {
            return self.less(over);
        }
        let op = self.clone();
        self.where_completions_run(move || {
            if let Some((items, told)) = op.items().and_then(|items| Some((items, items.told.as_ref()?))) {
                for item in ended {
                    let item = item as usize;
                    super::call_host(|| told(item, &items.result(item)));
                }
            }
            op.less(over);
        });
    }

    /// Keeps the error of an item as the batch's, if it is the first.
    pub(super) fn first_of_batch(&self, error: Arc<Error>) -> Arc<Error> {
        self.outcome.lock().error.get_or_insert_with(|| error.clone());
        error
    }

    /// Why a request ended without an error of its own, and without all of its bytes.
    fn why_over(&self) -> Arc<Error> {
        let ended_by = self.outcome.lock().ended_by.clone();
        self.first_of_batch(ended_by.unwrap_or_else(|| {
            let words = "a request of a batch ended without all of its bytes; this is a bug in RaskIO";
            Arc::new(Error::new(ErrorKind::Internal, words))
        }))
    }
}
