//! Allocation, page-locking, and the ends of both.

use crate::abi::{self, Answer, Out};
use crate::calls::context::health;
use crate::capture;
use crate::memory::{self, Kind};
use crate::stream::{self, Work};
use crate::world::{self, ContextId, Held, World, call_in_context, misuse};

fn allocate(name: &str, kind: Kind, out: Out<usize>, size: usize) -> i32 {
    call_in_context(name, |mut world, context| {
        capture::forbid_unsafe_call(&mut world)?;
        out.put(0)?;
        let device = world.contexts[&context].device;
        let start = memory::allocate(&mut world, kind, size, Some(context), device)?;
        out.put(start)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAlloc_v2(out: Out<usize>, size: usize) -> i32 {
    allocate("cuMemAlloc", Kind::Device, out, size)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAllocManaged(out: Out<usize>, size: usize, flags: u32) -> i32 {
    // Global or host attachment.
    if flags != 1 && flags != 2 {
        return abi::INVALID_VALUE;
    }
    allocate("cuMemAllocManaged", Kind::Managed, out, size)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostAlloc(out: Out<usize>, size: usize, _flags: u32) -> i32 {
    allocate("cuMemHostAlloc", Kind::Pinned, out, size)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAllocHost_v2(out: Out<usize>, size: usize) -> i32 {
    allocate("cuMemAllocHost", Kind::Pinned, out, size)
}

fn allocate_in_stream(out: Out<usize>, size: usize, handle: usize, own: bool) -> i32 {
    const NAME: &str = "cuMemAllocAsync";
    call_in_context(NAME, |mut world, context| {
        out.put(0)?;
        let stream = stream::resolve_for_work(&mut world, NAME, handle, own, context)?;
        let device = world.contexts[&context].device;
        let start = memory::allocate(&mut world, Kind::StreamOrdered, size, None, device)?;
        let ready = stream::submit(&mut world, stream, Work::Allocate, Vec::new())?;
        if let Some(block) = world.blocks.get_mut(&start) {
            block.ready = ready;
        }
        out.put(start)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAllocAsync(out: Out<usize>, size: usize, stream: usize) -> i32 {
    allocate_in_stream(out, size, stream, false)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAllocAsync_ptsz(out: Out<usize>, size: usize, stream: usize) -> i32 {
    allocate_in_stream(out, size, stream, true)
}

/// The block that begins at an address. An address that was freed ends the process: a double free.
fn beginning(world: &World, name: &str, start: usize, kinds: &[Kind]) -> Answer<usize> {
    match world.blocks.get(&start) {
        Some(block) if block.freeing => misuse(&format!("{name} of {start:#x}, which cuMemFreeAsync is freeing")),
        Some(block) if kinds.contains(&block.kind) => Ok(block.size),
        Some(_) => Err(abi::INVALID_VALUE),
        None if world.freed.contains(start) => misuse(&format!("{name} of {start:#x}, which was freed: a double free")),
        None => Err(abi::INVALID_VALUE),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(start: usize) -> i32 {
    const NAME: &str = "cuMemFree";
    const KINDS: &[Kind] = &[Kind::Device, Kind::StreamOrdered, Kind::Managed];
    call_in_context(NAME, |mut world, current| {
        capture::forbid_unsafe_call(&mut world)?;
        if start == 0 {
            return Ok(());
        }
        beginning(&world, NAME, start, KINDS)?;
        let context = world.blocks[&start].context.unwrap_or(current);
        if context != current {
            misuse(&format!("{NAME} of {start:#x}, which is of another context than the current one"));
        }
        // As the real one: it waits for the context's work.
        let mut world = stream::drain(world, context);
        beginning(&world, NAME, start, KINDS)?;
        memory::release(&mut world, start);
        health(&world, context)
    })
}

fn free_in_stream(start: usize, handle: usize, own: bool) -> i32 {
    const NAME: &str = "cuMemFreeAsync";
    call_in_context(NAME, |mut world, context| {
        let stream = stream::resolve_for_work(&mut world, NAME, handle, own, context)?;
        beginning(&world, NAME, start, &[Kind::StreamOrdered, Kind::Device])?;
        stream::submit(&mut world, stream, Work::Free(start), Vec::new())?;
        if let Some(block) = world.blocks.get_mut(&start) {
            block.freeing = true;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeAsync(start: usize, stream: usize) -> i32 {
    free_in_stream(start, stream, false)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeAsync_ptsz(start: usize, stream: usize) -> i32 {
    free_in_stream(start, stream, true)
}

fn not_pending(world: &World, name: &str, start: usize, size: usize) {
    if let Some(stream) = memory::pending_copy(world, start, size) {
        misuse(&format!("{name} of {start:#x} ({size} bytes) while a copy of it in stream {stream:#x} is pending"));
    }
}

/// Host memory can be given back after an asynchronous error too, and the error is told again.
fn giving_back(name: &str, body: impl FnOnce(&mut World) -> Answer) -> i32 {
    world::call(name, |mut world: Held| {
        let context: ContextId = world::current_id().ok_or(abi::INVALID_CONTEXT)?;
        if !world.contexts.contains_key(&context) {
            return Err(abi::CONTEXT_IS_DESTROYED);
        }
        capture::forbid_unsafe_call(&mut world)?;
        body(&mut world)?;
        health(&world, context)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(start: usize) -> i32 {
    const NAME: &str = "cuMemFreeHost";
    giving_back(NAME, |world| {
        let size = beginning(world, NAME, start, &[Kind::Pinned])?;
        not_pending(world, NAME, start, size);
        memory::release(world, start);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostRegister_v2(start: usize, size: usize, flags: u32) -> i32 {
    // Portable, device map, I/O memory, read only.
    const KNOWN: u32 = 15;
    call_in_context("cuMemHostRegister", |mut world, context| {
        capture::forbid_unsafe_call(&mut world)?;
        if flags & !KNOWN != 0 {
            return Err(abi::INVALID_VALUE);
        }
        let device = world.contexts[&context].device;
        memory::register(&mut world, start, size, context, device)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostUnregister(start: usize) -> i32 {
    const NAME: &str = "cuMemHostUnregister";
    giving_back(NAME, |world| {
        let size = match world.blocks.get(&start) {
            Some(block) if block.kind == Kind::Registered => block.size,
            _ => return Err(abi::HOST_MEMORY_NOT_REGISTERED),
        };
        not_pending(world, NAME, start, size);
        memory::release(world, start);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostGetDevicePointer_v2(out: Out<usize>, address: usize, _flags: u32) -> i32 {
    call_in_context("cuMemHostGetDevicePointer", |world, _| match memory::find(&world, address) {
        Some((_, block)) if block.on_host() => out.put(address),
        _ => Err(abi::INVALID_VALUE),
    })
}
