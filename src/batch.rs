//! Many ranges, of one object or of several, as one operation.
//!
//! What is wrong with an item fails that item. The others go, by object and kind of memory, through [`plan::coalesce`]; each
//! request that comes of it knows which items it carries ([`Part`]), and its sink where their bytes go.

use crate::client::Client;
use crate::endpoint;
use crate::error::{Error, Result};
use crate::memory;
use crate::object::{self, Object, ObjectCore, Pending, ReadOptions};
use crate::op::Completion;
use crate::op::items::{ItemTold, Items, Part, Span};
use crate::plan::coalesce::{self, Measure, Plan, Request};
use crate::plan::{self, ByteRange};
use crate::staging::{Group, Target};
use crate::sys::mem::Buffer;
use crate::transport::{Job, Transfer};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// One item.
pub struct ReadSpec {
    /// What to read.
    pub object: Arc<Object>,
    /// First byte.
    pub offset: u64,
    /// Where to, and how much.
    pub buffer: Buffer,
    /// The last bytes instead: as [`Object::read_last`].
    pub from_end: bool,
}

/// What cannot be an item, as its place in a batch has it.
pub struct Refused {
    /// Where the caller asked to begin.
    pub offset: u64,
    /// What is wrong.
    pub error: Error,
}

/// Which ranges share a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gap {
    /// Those as near to each other as pays for their endpoint.
    #[default]
    Default,
    /// None, not even equal ones.
    Never,
    /// Those at most so many bytes apart.
    Bytes(u64),
}

/// How a batch runs.
#[derive(Default)]
pub struct BatchOptions {
    /// Every item.
    pub read: ReadOptions,
    /// Which ranges of one object share a request.
    pub gap: Gap,
    /// But a request does not grow beyond so many bytes by that. `None`: the size of a task.
    pub most: Option<u64>,
    /// Called for each item as it ends.
    pub item_done: Option<ItemTold>,
}

/// What is asked for at once of what each of so many items takes in small pieces.
const AT_ONCE: usize = 1024;
/// That, of one: its target, or what is wrong with it.
const PIECES: usize = 512;
/// What a part of a shared request takes in its sink and in its list of parts.
const PIECES_OF_PART: usize = 128;

/// What an item takes.
enum Need {
    /// No request.
    Nothing,
    /// Those for a range.
    Range(Arc<ObjectCore>, ByteRange, Box<dyn Target>),
    /// Those for the end of an object whose size is not known.
    End(Arc<ObjectCore>, u64, Box<dyn Target>),
}

/// Items of one object and one kind of memory.
struct Near {
    object: Arc<ObjectCore>,
    /// Items by their place in the batch, with their ranges and targets.
    items: Vec<u32>,
    ranges: Vec<ByteRange>,
    targets: Vec<Box<dyn Target>>,
    plan: Plan,
}

/// An item at the end of an object whose size is not known.
struct AtEnd {
    item: u32,
    object: Arc<ObjectCore>,
    target: Box<dyn Target>,
    len: u64,
}

/// What becomes of the items.
#[derive(Default)]
struct Sorted {
    task_size: u64,
    near: Vec<Near>,
    /// Where those of an object and a kind of memory are.
    found: HashMap<(usize, Group), usize>,
    at_end: Vec<AtEnd>,
    /// Those that need no request: empty, or wrong.
    over: Vec<u32>,
    /// What is wrong with those.
    wrong: Vec<(u32, Error)>,
}

impl Client {
    /// Reads many ranges as one operation. Whatever is wrong with an item, an `Err` in its place included, fails it alone.
    ///
    /// # Errors
    /// OUT_OF_MEMORY, SHUT_DOWN, FORKED. The completion is dropped uncalled then.
    pub fn read_batch(
        self: &Arc<Self>,
        specs: impl ExactSizeIterator<Item = std::result::Result<ReadSpec, Refused>>,
        options: BatchOptions,
        done: Completion,
    ) -> Result<Pending> {
        // Before a thread is started, or a driver is asked.
        self.check_process()?;
        let (count, items) = (specs.len(), Items::new(specs.len(), options.item_done)?);
        let task_size = options.read.task_size.unwrap_or(self.config().task_size);
        let mut sorted = Sorted { task_size, ..Sorted::default() };
        for (number, spec) in specs.enumerate().take(items.len()) {
            if number % AT_ONCE == 0 {
                memory::check(AT_ONCE.min(count - number), PIECES, || of_items(count))?;
            }
            // `Items` has no more.
            let item = u32::try_from(number).unwrap_or(u32::MAX);
            // Also of an item that fails: the caller finds its place again by that.
            items.set_offset(item, spec.as_ref().map_or_else(|refused| refused.offset, |spec| spec.offset));
            let need = match spec {
                Ok(spec) => self.look_at(spec, item, &items, task_size),
                Err(refused) => Err(refused.error),
            };
            sorted.put(item, need, &items)?;
        }
        let most = options.most.unwrap_or(task_size);
        let groups = sorted.plan(options.gap, most, &items)?;
        self.start_items(items, sorted, groups, object::deadline(&options.read), done)
    }

    /// From here on nothing fails.
    fn start_items(
        self: &Arc<Self>,
        items: Items,
        sorted: Sorted,
        mut groups: Groups,
        deadline: Option<Instant>,
        done: Completion,
    ) -> Result<Pending> {
        let (none, task_size) = (items.is_empty(), sorted.task_size);
        let op = self.begin_items(items, deadline, sorted.size(), done)?;
        for (item, error) in sorted.wrong {
            op.fail_part(&Part::Item(item), error);
        }
        for AtEnd { item, object, target, len } in sorted.at_end {
            let job = object::end_of(&object, target, len, task_size);
            groups.push(Transfer::new(op.clone(), Part::Item(item), object, job));
        }
        for near in sorted.near {
            near.requests(|object, part, job| groups.push(Transfer::new(op.clone(), part, object, job)));
        }
        // A batch of nothing ends like one of something.
        let over = (none || !sorted.over.is_empty()).then(|| {
            let span = |item| Span { item, at: 0, len: 0 };
            Part::Spans(sorted.over.into_iter().map(span).collect())
        });
        Ok(Pending::new(self.clone(), op, over, groups.all()))
    }

    /// What an item takes.
    fn look_at(self: &Arc<Self>, spec: ReadSpec, item: u32, items: &Items, task_size: u64) -> Result<Need> {
        let ReadSpec { object, offset, mut buffer, from_end } = spec;
        if !Arc::ptr_eq(object.client(), self) {
            return Err(Error::invalid(format!(
                "{} was opened through another client than the batch's",
                object.name()
            )));
        }
        let (mut offset, mut len, size) = (offset, buffer.len(), object.core().fixed_size());
        plan::check_bounds(object.name(), offset, len, if from_end { None } else { size })?;
        if from_end && offset != 0 {
            return Err(Error::invalid("offset must be 0 for the last bytes of an object"));
        }
        if let (true, Some(size)) = (from_end, size) {
            ByteRange { start: offset, len } = ByteRange::last(len, size);
            buffer = buffer.split_to(len);
            items.set_offset(item, offset);
        }
        if len == 0 {
            return Ok(Need::Nothing);
        }
        let (object, target) = (object.core().clone(), self.target(buffer)?);
        plan::checked_count(object.name(), len, target.request_size(task_size))?;
        if from_end && size.is_none() {
            return Ok(Need::End(object, len, target));
        }
        Ok(Need::Range(object, ByteRange { start: offset, len }, target))
    }
}

/// What memory is for that cannot be had.
fn of_items(count: usize) -> String {
    format!("for a batch of {count} items; use smaller ones")
}

impl Sorted {
    /// Puts an item in its place, and counts its requests that are known by now.
    fn put(&mut self, item: u32, need: Result<Need>, items: &Items) -> Result<()> {
        let what = || of_items(items.len());
        let (object, range, target) = match need {
            Ok(Need::Range(object, range, target)) => (object, range, target),
            Ok(Need::Nothing) => {
                items.add_request(item);
                return memory::push(&mut self.over, item, what);
            }
            Ok(Need::End(object, len, target)) => {
                items.add_request(item);
                return memory::push(&mut self.at_end, AtEnd { item, object, target, len }, what);
            }
            Err(error) => {
                items.add_request(item);
                let error = error.context(format_args!("item {item}"));
                memory::push(&mut self.wrong, (item, error), what)?;
                return memory::push(&mut self.over, item, what);
            }
        };
        let of = (Arc::as_ptr(&object) as usize, target.group());
        let place = match self.found.get(&of) {
            Some(place) => *place,
            None => {
                let (items, ranges, targets, plan) = (Vec::new(), Vec::new(), Vec::new(), Plan::default());
                memory::push(&mut self.near, Near { object, items, ranges, targets, plan }, what)?;
                memory::map(&mut self.found, what)?.insert(of, self.near.len() - 1);
                self.near.len() - 1
            }
        };
        let near = &mut self.near[place];
        memory::push(&mut near.items, item, what)?;
        memory::push(&mut near.ranges, range, what)?;
        memory::push(&mut near.targets, target, what)
    }

    /// Bytes of all that is asked for.
    fn size(&self) -> u64 {
        let ranges = self.near.iter().flat_map(|near| &near.ranges).map(|range| range.len);
        ranges.chain(self.at_end.iter().map(|end| end.len)).fold(0, u64::saturating_add)
    }

    /// Plans the requests and counts them, and makes room for them.
    fn plan(&mut self, gap: Gap, most: u64, items: &Items) -> Result<Groups> {
        let (mut groups, mut requests, mut parts) = (Groups::default(), self.at_end.len(), 0);
        let what = |requests: usize| {
            format!("to queue {requests} requests of a batch of {} items; use smaller ones", items.len())
        };
        for end in &self.at_end {
            // Longer ones are cut later, and wait for their memory then.
            let whole = end.len <= end.target.request_size(self.task_size);
            let line = end.target.group().line().filter(|_| whole);
            groups.make_room((end.object.endpoint().local().is_some(), line), 1, what)?;
        }
        for near in &mut self.near {
            near.plan = near.planned(gap, most, self.task_size)?;
            near.plan.parts.iter().for_each(|part| items.add_request(near.items[part.range as usize]));
            let shared = |request: &&Request| request.parts.len() > 1;
            parts += near.plan.requests.iter().filter(shared).map(|request| request.parts.len()).sum::<usize>();
            requests += near.plan.requests.len();
            let line = near.targets.first().and_then(|target| target.group().line());
            groups.make_room((near.object.endpoint().local().is_some(), line), near.plan.requests.len(), what)?;
        }
        let pieces = requests.saturating_mul(Transfer::PIECES).saturating_add(parts.saturating_mul(PIECES_OF_PART));
        memory::check(1, pieces.saturating_add(self.over.len() * 2 * size_of::<Span>()), || what(requests))?;
        Ok(groups)
    }
}

impl Near {
    fn planned(&self, gap: Gap, most: u64, task_size: u64) -> Result<Plan> {
        let limit = self.targets.first().and_then(|target| target.limit()).unwrap_or(u64::MAX);
        let gap = match gap {
            Gap::Never => None,
            Gap::Bytes(bytes) => Some(bytes),
            Gap::Default => Some(endpoint::coalesce_gap(self.object.endpoint().kind())),
        };
        coalesce::plan(&self.ranges, Measure { gap, most: most.min(limit), task_size: task_size.min(limit) })
    }

    /// The requests.
    fn requests(mut self, mut push: impl FnMut(Arc<ObjectCore>, Part, Job)) {
        for request in &self.plan.requests {
            let (range, parts) = (request.range, self.plan.parts_of(request));
            let (part, sink) = match parts {
                [only] => {
                    let number = only.range as usize;
                    (Part::Item(self.items[number]), self.targets[number].next(only.len))
                }
                several => {
                    let place = |part: &coalesce::Part| part.start - range.start;
                    let span = |part: &coalesce::Part| Span {
                        item: self.items[part.range as usize],
                        at: place(part),
                        len: part.len,
                    };
                    let spans = several.iter().map(span).collect();
                    let mut cut =
                        |part: &coalesce::Part| (place(part), self.targets[part.range as usize].part(part.len));
                    let places = several.iter().map(&mut cut).collect();
                    let first = several.first().map_or(0, |part| part.range as usize);
                    (Part::Spans(spans), self.targets[first].scatter(range.len, places))
                }
            };
            push(self.object.clone(), part, Job::Read { range, sink });
        }
    }
}

/// Whether a request is for the transport of local files, and the line that it may have to stand in.
type Way = (bool, Option<usize>);

/// Requests in groups that go to the same transport and wait for the same kind of memory.
#[derive(Default)]
struct Groups {
    groups: Vec<OneWay>,
}

/// Requests that go one way, and how many there will be.
struct OneWay {
    way: Way,
    planned: usize,
    transfers: Vec<Transfer>,
}

impl Groups {
    /// For so many more that go this way.
    fn make_room(&mut self, way: Way, more: usize, what: impl Fn(usize) -> String) -> Result<()> {
        let place = match self.groups.iter().position(|group| group.way == way) {
            Some(place) => place,
            None => {
                memory::push(&mut self.groups, OneWay { way, planned: 0, transfers: Vec::new() }, || what(more))?;
                self.groups.len() - 1
            }
        };
        let group = &mut self.groups[place];
        group.planned += more;
        // None of them is there yet.
        memory::room(&mut group.transfers, group.planned, || what(more))
    }

    fn push(&mut self, transfer: Transfer) {
        let way = (transfer.is_local(), transfer.line());
        match self.groups.iter_mut().find(|group| group.way == way) {
            Some(group) => group.transfers.push(transfer),
            None => self.groups.push(OneWay { way, planned: 1, transfers: vec![transfer] }),
        }
    }

    fn all(self) -> Vec<Vec<Transfer>> {
        self.groups.into_iter().map(|group| group.transfers).filter(|group| !group.is_empty()).collect()
    }
}
