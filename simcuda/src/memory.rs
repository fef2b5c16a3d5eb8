//! Blocks of memory. Device memory is an address range that the host cannot touch; its bytes are in a second mapping.

use std::collections::{BTreeMap, VecDeque};
use std::ptr;

use crate::abi::{self, Answer};
use crate::world::{ContextId, Point, World, is_done, misuse};

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `cuMemAlloc`: of one context.
    Device,
    /// `cuMemAllocAsync`: of a device, in the order of a stream.
    StreamOrdered,
    /// `cuMemAllocManaged`: host and device reach it.
    Managed,
    /// `cuMemHostAlloc`, `cuMemAllocHost`: page-locked host memory.
    Pinned,
    /// `cuMemHostRegister`: the caller's host memory, page-locked.
    Registered,
}

/// A block of memory that the driver knows.
pub struct Block {
    /// What it is.
    pub kind: Kind,
    /// Its bytes as asked for.
    pub size: usize,
    /// Where copies find its bytes.
    pub alias: usize,
    /// The context that it was made in; stream-ordered memory has none.
    pub context: Option<ContextId>,
    /// The device that it belongs to.
    pub device: usize,
    /// `CU_POINTER_ATTRIBUTE_BUFFER_ID`.
    pub id: u64,
    /// Stream-ordered: when it begins to exist.
    pub ready: Option<Point>,
    /// Stream-ordered: `cuMemFreeAsync` was called.
    pub freeing: bool,
}

impl Block {
    /// Whether the host may touch it.
    pub fn on_host(&self) -> bool {
        matches!(self.kind, Kind::Pinned | Kind::Registered)
    }
}

fn page_up(size: usize) -> usize {
    size.next_multiple_of(4096)
}

fn map(size: usize, protection: i32) -> Answer<usize> {
    // SAFETY: a new anonymous mapping, anywhere.
    let memory = unsafe {
        libc::mmap(
            ptr::null_mut(),
            page_up(size),
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED { Err(abi::OUT_OF_MEMORY) } else { Ok(memory as usize) }
}

fn unmap(start: usize, size: usize) {
    // SAFETY: a mapping of this module's that nothing refers to any more.
    unsafe { libc::munmap(start as *mut _, page_up(size)) };
}

/// Addresses that were freed, kept out of use so that what still refers to them is caught.
#[derive(Default)]
pub struct Freed {
    ranges: BTreeMap<usize, usize>,
    order: VecDeque<usize>,
}

impl Freed {
    const KEPT: usize = 4096;

    fn add(&mut self, start: usize, size: usize) {
        self.ranges.insert(start, size);
        self.order.push_back(start);
        if self.order.len() > Self::KEPT {
            if let Some((start, size)) = self.order.pop_front().and_then(|start| self.ranges.remove_entry(&start)) {
                unmap(start, size);
            }
        }
    }

    /// Whether an address was freed.
    pub fn contains(&self, address: usize) -> bool {
        self.ranges.range(..=address).next_back().is_some_and(|(start, size)| address - start < page_up(*size))
    }
}

/// Makes a block; its address.
pub fn allocate(
    world: &mut World,
    kind: Kind,
    size: usize,
    context: Option<ContextId>,
    device: usize,
) -> Answer<usize> {
    const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
    if size == 0 {
        return Err(abi::INVALID_VALUE);
    }
    let alias = map(size, READ_WRITE)?;
    let start = match kind {
        Kind::Device | Kind::StreamOrdered => map(size, libc::PROT_NONE).inspect_err(|_| unmap(alias, size))?,
        _ => alias,
    };
    let id = world.number();
    world.blocks.insert(start, Block { kind, size, alias, context, device, id, ready: None, freeing: false });
    Ok(start)
}

/// Notes that the caller's memory is page-locked.
pub fn register(world: &mut World, start: usize, size: usize, context: ContextId, device: usize) -> Answer {
    if start == 0 || size == 0 {
        return Err(abi::INVALID_VALUE);
    }
    let end = start.checked_add(size).ok_or(abi::INVALID_VALUE)?;
    if world.blocks.range(..end).next_back().is_some_and(|(other, block)| other + block.size > start) {
        return Err(abi::HOST_MEMORY_ALREADY_REGISTERED);
    }
    let id = world.number();
    let block = Block {
        kind: Kind::Registered,
        size,
        alias: start,
        context: Some(context),
        device,
        id,
        ready: None,
        freeing: false,
    };
    world.blocks.insert(start, block);
    Ok(())
}

/// The block that an address is in.
pub fn find(world: &World, address: usize) -> Option<(usize, &Block)> {
    let (start, block) = world.blocks.range(..=address).next_back()?;
    (address - start < block.size).then_some((*start, block))
}

/// The end of a block. `misuse` if something still refers to it: see `pending_copy`.
pub fn release(world: &mut World, start: usize) {
    let Some(block) = world.blocks.remove(&start) else { return };
    match block.kind {
        Kind::Registered => return,
        Kind::Device | Kind::StreamOrdered => unmap(block.alias, block.size),
        Kind::Managed | Kind::Pinned => {
            // SAFETY: this module's own mapping, which its owner has given back. Its pages go, its addresses stay.
            unsafe {
                libc::mmap(
                    start as *mut _,
                    page_up(block.size),
                    libc::PROT_NONE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                    -1,
                    0,
                );
            }
        }
    }
    world.freed.add(start, block.size);
}

/// The stream of a copy that is not done yet and that reads or writes this block.
pub fn pending_copy(world: &World, start: usize, size: usize) -> Option<usize> {
    let touches = |place: &Place| place.address < start + size && start < place.address + place.size;
    world
        .streams
        .iter()
        .find(|(_, stream)| stream.queue.iter().any(|operation| operation.work.places().any(touches)))
        .map(|(handle, _)| *handle)
}

/// Which memory a parameter of a copy may name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Device memory.
    Device,
    /// Host memory.
    Host,
    /// Either: the address tells.
    Any,
}

/// A range that is to be read or written.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// As the caller names it.
    pub address: usize,
    /// Bytes.
    pub size: usize,
    /// Memory that the driver does not know: the host's own.
    pub pageable: bool,
    /// Host memory, page-locked or not.
    pub host: bool,
}

/// Checks a range at submission.
pub fn place(world: &World, name: &str, address: usize, size: usize, side: Side, context: ContextId) -> Answer<Place> {
    let Some((start, block)) = find(world, address) else {
        if world.freed.contains(address) {
            misuse(&format!("{name} of {size} bytes at {address:#x}: this memory was freed"));
        }
        if side == Side::Device {
            misuse(&format!("{name} of {size} bytes at {address:#x}: this is no device memory"));
        }
        let next = world.blocks.range(address..).next();
        if next.is_some_and(|(next, block)| block.on_host() && *next < address + size) {
            misuse(&format!("{name} of {size} bytes at {address:#x}: it runs from pageable into page-locked memory"));
        }
        return Ok(Place { address, size, pageable: true, host: true });
    };
    if block.size - (address - start) < size {
        misuse(&format!(
            "{name} of {size} bytes at {address:#x}: out of range, the memory ends {} bytes after it",
            block.size - (address - start)
        ));
    }
    if block.freeing {
        misuse(&format!("{name} of {size} bytes at {address:#x}: cuMemFreeAsync was called for this memory"));
    }
    if side == Side::Host && matches!(block.kind, Kind::Device | Kind::StreamOrdered)
        || side == Side::Device && block.on_host()
    {
        return Err(abi::INVALID_VALUE);
    }
    if !accessible(world, block, context) {
        misuse(&format!(
            "{name} of {size} bytes at {address:#x}: this memory is of another context than the current one"
        ));
    }
    Ok(Place { address, size, pageable: false, host: block.on_host() })
}

/// Whether a context reaches a block.
pub fn accessible(world: &World, block: &Block, context: ContextId) -> bool {
    match block.kind {
        Kind::Device => block.context == Some(context),
        Kind::StreamOrdered => world.contexts.get(&context).is_some_and(|context| context.device == block.device),
        Kind::Managed | Kind::Pinned | Kind::Registered => true,
    }
}

/// Checks a range again when it is used, and says where its bytes are.
pub fn open(world: &World, what: &str, place: &Place) -> usize {
    if place.pageable {
        return place.address;
    }
    let Some((start, block)) = find(world, place.address) else {
        misuse(&format!(
            "{what} of {} bytes at {:#x}: the memory was freed or unregistered before the stream came to it",
            place.size, place.address
        ));
    };
    if block.size - (place.address - start) < place.size {
        misuse(&format!("{what} of {} bytes at {:#x}: the memory is smaller by now", place.size, place.address));
    }
    if block.ready.as_ref().is_some_and(|point| !is_done(point)) {
        misuse(&format!(
            "{what} of {} bytes at {:#x}: cuMemAllocAsync has not come to this memory in its own stream yet",
            place.size, place.address
        ));
    }
    block.alias + (place.address - start)
}

/// The bytes behind an address that `open` gave.
///
/// # Safety
/// `size` bytes at `address` are mapped for the life of the result; nobody writes them meanwhile, or a check sum tells.
pub unsafe fn bytes<'a>(address: usize, size: usize) -> &'a [u8] {
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(address as *const u8, size) }
}

/// A quick check sum that depends on every byte and its place.
pub fn checksum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.split_at(bytes.len() & !7);
    let step = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let sum = words.chunks_exact(8).fold(bytes.len() as u64, |sum, word| {
        step(sum, u64::from_le_bytes([word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]]))
    });
    rest.iter().fold(sum, |sum, byte| step(sum, u64::from(*byte)))
}
