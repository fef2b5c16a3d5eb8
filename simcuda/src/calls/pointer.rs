//! What the driver knows about a pointer.

use std::ffi::c_void;

use crate::abi::{self, Answer, Out};
use crate::memory::{self, Block, Kind};
use crate::world::{self, Held, call};

const MEMORY_HOST: u32 = 1;
const MEMORY_DEVICE: u32 = 2;

/// Writes one attribute, whose type depends on it. `None`: the driver does not know the pointer.
fn write(world: &Held, attribute: i32, address: usize, found: Option<(usize, &Block)>, data: *mut c_void) -> Answer {
    let number = Out(data.cast::<u64>());
    let word = Out(data.cast::<u32>());
    let flag = Out(data.cast::<u8>());
    let block = found.map(|(_, block)| block);
    match attribute {
        // CONTEXT: stream-ordered memory has none.
        1 => {
            let context = block.and_then(|block| block.context).and_then(|id| world.contexts.get(&id));
            number.put(context.map_or(0, |context| context.handle as u64))
        }
        // MEMORY_TYPE
        2 => word.put(block.map_or(0, |block| if block.on_host() { MEMORY_HOST } else { MEMORY_DEVICE })),
        // DEVICE_POINTER: for the current context.
        3 => match block {
            None => number.put(0),
            Some(block) => {
                let context = world::current(world)?;
                if !memory::accessible(world, block, context) {
                    return Err(abi::INVALID_VALUE);
                }
                number.put(address as u64)
            }
        },
        // HOST_POINTER
        4 => match block {
            Some(block) if block.on_host() || block.kind == Kind::Managed => number.put(address as u64),
            Some(_) => Err(abi::INVALID_VALUE),
            None => number.put(0),
        },
        // SYNC_MEMOPS, IS_LEGACY_CUDA_IPC_CAPABLE, IS_GPU_DIRECT_RDMA_CAPABLE
        6 | 10 | 15 => flag.put(0),
        // BUFFER_ID
        7 => number.put(block.map_or(0, |block| block.id)),
        // IS_MANAGED
        8 => flag.put(u8::from(block.is_some_and(|block| block.kind == Kind::Managed))),
        // DEVICE_ORDINAL, with CU_DEVICE_INVALID
        9 => Out(data.cast::<i32>()).put(block.map_or(-2, |block| block.device as i32)),
        // RANGE_START_ADDR
        11 => number.put(found.map_or(0, |(start, _)| start as u64)),
        // RANGE_SIZE
        12 => number.put(block.map_or(0, |block| block.size as u64)),
        // MAPPED
        13 => flag.put(u8::from(block.is_some())),
        // ALLOWED_HANDLE_TYPES, MEMPOOL_HANDLE
        14 | 17 => {
            number.put(u64::from(attribute == 17 && block.is_some_and(|block| block.kind == Kind::StreamOrdered)))
        }
        // ACCESS_FLAGS: read and write
        16 => word.put(if block.is_some() { 3 } else { 0 }),
        _ => Err(abi::INVALID_VALUE),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuPointerGetAttribute(data: *mut c_void, attribute: i32, address: usize) -> i32 {
    call("cuPointerGetAttribute", |world| {
        let found = memory::find(&world, address);
        if found.is_none() {
            return Err(abi::INVALID_VALUE);
        }
        write(&world, attribute, address, found, data)
    })
}

/// A pointer that the driver does not know is no error here: its attributes are zero, and its device is -2.
#[unsafe(no_mangle)]
pub extern "C" fn cuPointerGetAttributes(
    count: u32,
    attributes: Out<i32>,
    data: Out<*mut c_void>,
    address: usize,
) -> i32 {
    call("cuPointerGetAttributes", |world| {
        let found = memory::find(&world, address);
        for i in 0..count as usize {
            write(&world, attributes.at(i).get()?, address, found, data.at(i).get()?)?;
        }
        Ok(())
    })
}
