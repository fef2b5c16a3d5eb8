//! Many ranges, of one object or of several, as one operation.
//!
//! What is wrong with an item fails that item. The others go, by object and kind of memory, through [`plan::coalesce`]; each
//! request that comes of it knows which items it carries ([`Part`]), and its sink where their bytes go.

use crate::client::Client;
use crate::endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{self, Object, ObjectCore, Pending, ReadOptions};
use crate::op::Completion;
use crate::op::items::{ItemTold, Items, Part, Span};
use crate::plan::coalesce::{self, Measure, Plan};
use crate::plan::{self, ByteRange};
use crate::staging::{Group, Target};
use crate::sys::mem::Buffer;
use crate::transport::{Job, Transfer};
use std::collections::HashMap;
use std::sync::Arc;

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

/// Items of one object and one kind of memory.
struct Near {
    object: Arc<ObjectCore>,
    /// Items by their place in the batch, with their ranges and targets.
    items: Vec<u32>,
    ranges: Vec<ByteRange>,
    targets: Vec<Box<dyn Target>>,
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
        specs: impl ExactSizeIterator<Item = Result<ReadSpec>>,
        options: BatchOptions,
        done: Completion,
    ) -> Result<Pending> {
        // Before a thread is started, or a driver is asked.
        self.check_process()?;
        let items = Items::new(specs.len(), options.item_done)?;
        let task_size = options.read.task_size.unwrap_or(self.config().task_size);
        let mut sorted = Sorted { task_size, ..Sorted::default() };
        for (number, spec) in specs.enumerate().take(items.len()) {
            // `Items` has no more.
            let item = u32::try_from(number).unwrap_or(u32::MAX);
            items.add_request(item);
            if let Err(error) = spec.and_then(|spec| self.sort_in(spec, item, &items, &mut sorted)) {
                sorted.wrong.push((item, error.context(format_args!("item {number}"))));
                sorted.over.push(item);
            }
        }
        let most = options.most.unwrap_or(task_size);
        let plans =
            sorted.near.iter().map(|near| near.plan(options.gap, most, task_size)).collect::<Result<Vec<Plan>>>()?;
        let count = plans.iter().map(|plan| plan.requests.len()).sum::<usize>() + sorted.at_end.len();
        let mut groups = Groups::new(count, items.len())?;
        let at_end = sorted.at_end.iter().map(|end| end.len);
        let size = sorted
            .near
            .iter()
            .flat_map(|near| &near.ranges)
            .map(|range| range.len)
            .chain(at_end)
            .fold(0, u64::saturating_add);
        let op = self.begin_items(items, object::deadline(&options.read), size, done)?;
        let Some(items) = op.items() else { return Err(Error::new(ErrorKind::Internal, "a batch has no items")) };
        for (item, error) in sorted.wrong {
            op.fail_part(&Part::Item(item), error);
        }
        for AtEnd { item, object, target, len } in sorted.at_end {
            let job = object::end_of(&object, target, len, task_size);
            groups.push(Transfer::new(op.clone(), Part::Item(item), object, job));
        }
        for (near, plan) in sorted.near.into_iter().zip(plans) {
            near.count(&plan, items);
            near.requests(&plan, |object, part, job| groups.push(Transfer::new(op.clone(), part, object, job)));
        }
        // A batch of nothing ends like one of something.
        let over = (items.is_empty() || !sorted.over.is_empty()).then(|| {
            let span = |item| Span { item, at: 0, len: 0 };
            Part::Spans(sorted.over.into_iter().map(span).collect())
        });
        Ok(Pending::new(self.clone(), op, over, groups.all()))
    }

    /// Finds an item its place.
    fn sort_in(self: &Arc<Self>, spec: ReadSpec, item: u32, items: &Items, sorted: &mut Sorted) -> Result<()> {
        let ReadSpec { object, offset, mut buffer, from_end } = spec;
        if !Arc::ptr_eq(object.client(), self) {
            return Err(Error::invalid(format!(
                "{} was opened through another client than the batch's",
                object.name()
            )));
        }
        let (mut offset, mut len, size) = (offset, buffer.len(), object.size());
        plan::check_bounds(object.name(), offset, len, if from_end { None } else { size })?;
        if from_end && offset != 0 {
            return Err(Error::invalid("offset must be 0 for the last bytes of an object"));
        }
        if let (true, Some(size)) = (from_end, size) {
            ByteRange { start: offset, len } = ByteRange::last(len, size);
            buffer = buffer.split_to(len);
        }
        items.set_offset(item, offset);
        if len == 0 {
            sorted.over.push(item);
            return Ok(());
        }
        let (object, target) = (object.core().clone(), self.target(buffer)?);
        let task_size = target.limit().map_or(sorted.task_size, |limit| limit.min(sorted.task_size));
        plan::checked_count(object.name(), len, task_size)?;
        if from_end && size.is_none() {
            sorted.at_end.push(AtEnd { item, object, target, len });
            return Ok(());
        }
        let group = target.group();
        let place = *sorted.found.entry((Arc::as_ptr(&object) as usize, group)).or_insert_with(|| {
            let (items, ranges, targets) = (Vec::new(), Vec::new(), Vec::new());
            sorted.near.push(Near { object, items, ranges, targets });
            sorted.near.len() - 1
        });
        let near = &mut sorted.near[place];
        near.items.push(item);
        near.ranges.push(ByteRange { start: offset, len });
        near.targets.push(target);
        Ok(())
    }
}

impl Near {
    fn plan(&self, gap: Gap, most: u64, task_size: u64) -> Result<Plan> {
        let limit = self.targets.first().and_then(|target| target.limit()).unwrap_or(u64::MAX);
        let gap = match gap {
            Gap::Never => None,
            Gap::Bytes(bytes) => Some(bytes),
            Gap::Default => Some(endpoint::coalesce_gap(self.object.endpoint().kind())),
        };
        coalesce::plan(&self.ranges, Measure { gap, most: most.min(limit), task_size: task_size.min(limit) })
    }

    /// Tells the items how many requests carry them. They count one each.
    fn count(&self, plan: &Plan, items: &Items) {
        let mut counted = vec![false; self.items.len()];
        for part in &plan.parts {
            let number = part.range as usize;
            if std::mem::replace(&mut counted[number], true) {
                items.add_request(self.items[number]);
            }
        }
    }

    /// The requests.
    fn requests(mut self, plan: &Plan, mut push: impl FnMut(Arc<ObjectCore>, Part, Job)) {
        for request in &plan.requests {
            let (range, parts) = (request.range, plan.parts_of(request));
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
struct Groups {
    groups: Vec<(Way, Vec<Transfer>)>,
}

impl Groups {
    /// With room for so many requests of one kind, which most batches are.
    fn new(count: usize, items: usize) -> Result<Groups> {
        let mut first = Vec::new();
        // Memory that cannot be had would end the process.
        first.try_reserve_exact(count).map_err(|_| {
            let words =
                format!("no memory to queue the {count} requests of a batch of {items} items; use smaller ones");
            Error::new(ErrorKind::OutOfMemory, words)
        })?;
        Ok(Groups { groups: vec![((false, None), first)] })
    }

    fn push(&mut self, transfer: Transfer) {
        let line = (transfer.is_local(), transfer.line());
        if let [(of, only)] = &mut self.groups[..] {
            if only.is_empty() {
                *of = line;
            }
        }
        match self.groups.iter_mut().find(|(of, _)| *of == line) {
            Some((_, group)) => group.push(transfer),
            None => self.groups.push((line, vec![transfer])),
        }
    }

    fn all(self) -> Vec<Vec<Transfer>> {
        self.groups.into_iter().map(|(_, group)| group).filter(|group| !group.is_empty()).collect()
    }
}
