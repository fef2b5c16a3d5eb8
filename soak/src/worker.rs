//! Starts operations, takes in what becomes of them, and cancels some.

use crate::chaos;
use crate::check::{Facts, Outcome, Running, Tally, check};
use crate::memory::Guarded;
use crate::plan::{Cancel, Kind, Plan};
use crate::round::Round;
use crate::world::{ENOUGH, World};
use raskio::client::Client;
use raskio::error::{Error, ErrorKind};
use raskio::object::{Object, ObjectOptions, ReadOptions};
use raskio::op::{OpResult, Operation};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Operations that a worker has going at once.
const AT_ONCE: usize = 48;
/// Buffers of failed reads that are watched before they are freed.
const WATCHED: usize = 64;
/// Without any callback for so long, with operations running, something hangs. The longest that one takes by itself is
/// 17 broken attempts with their waits.
const HANG: Duration = Duration::from_secs(90);

/// One client and what its workers share.
pub struct Side {
    /// The client.
    pub client: Arc<Client>,
    /// Objects that are opened once.
    pub shared: Vec<Arc<Object>>,
    /// Its operations are the even or the odd ones.
    pub parity: u64,
    /// How many it has begun.
    pub next: AtomicU64,
    /// Operations that RaskIO accepted.
    pub accepted: AtomicU64,
    /// To be cancelled from inside the next callback.
    pub victim: Mutex<Option<(u64, Arc<Operation>)>>,
    /// For the checks.
    pub facts: Facts,
}

impl Side {
    fn take_id(&self, round: &Round) -> Option<u64> {
        let first = round.ids.start / 2 + (round.ids.start % 2).saturating_sub(self.parity);
        let id = (first + self.next.fetch_add(1, SeqCst)) * 2 + self.parity;
        (id < round.ids.end).then_some(id)
    }

    /// Called inside a callback.
    fn cancel_victim(&self, world: &World, own: u64) {
        let victim = self.victim.lock().unwrap_or_else(PoisonError::into_inner).take_if(|(id, _)| *id != own);
        if let Some((id, op)) = victim {
            cancel(world, id, &op);
        }
    }
}

fn cancel(world: &World, id: u64, op: &Operation) {
    if let Some(entry) = world.script.ledger.get(id) {
        entry.cancelled.store(true, SeqCst);
    }
    op.cancel();
}

/// A worker's life: until there is nothing to start any more and everything started is over.
pub fn work(world: &Arc<World>, side: &Arc<Side>, round: &Round, starting: &AtomicUsize) -> Tally {
    let (sender, receiver) = channel();
    let mut tally = Tally::default();
    let mut running: HashMap<u64, Running> = HashMap::new();
    let mut cancels: Vec<(Instant, u64)> = Vec::new();
    let mut given_back: VecDeque<(u64, Guarded)> = VecDeque::new();
    let mut last = Instant::now();
    let mut more = true;
    let mut scratch = Vec::new();
    loop {
        while more && running.len() < AT_ONCE {
            let over = Instant::now() >= round.end || world.violations() >= ENOUGH;
            match side.take_id(round).filter(|_| !over) {
                Some(id) => match start(world, side, id, &sender) {
                    Ok(started) => {
                        if let Cancel::After(wait) = started.plan.cancel {
                            cancels.push((started.begun + wait, id));
                        }
                        running.insert(id, started);
                    }
                    // Only a client that is being shut down accepts nothing.
                    Err(error) if error.kind() == ErrorKind::ShutDown && side.facts.closing.load(SeqCst) => {
                        more = false;
                    }
                    Err(error) => world.violation(format!("operation {id} was not accepted: {error}")),
                },
                None => more = false,
            }
            if !more {
                starting.fetch_sub(1, SeqCst);
            }
        }
        if running.is_empty() && !more {
            break;
        }
        cancels.retain(|(at, id)| {
            let due = Instant::now() >= *at;
            if let Some(running) = running.get_mut(id).filter(|_| due) {
                running.cancelled_at = Some(Instant::now());
                cancel(world, *id, &running.op);
            }
            !due
        });
        let wait = if cancels.is_empty() { Duration::from_millis(50) } else { Duration::from_millis(1) };
        match receiver.recv_timeout(wait) {
            Ok((id, outcome)) => {
                last = Instant::now();
                for (id, outcome) in std::iter::once((id, outcome)).chain(receiver.try_iter()) {
                    let Some(over) = running.remove(&id) else {
                        world.violation(format!(
                            "operation {id}: a callback for an operation that is over: {outcome:?}"
                        ));
                        continue;
                    };
                    let failed = outcome.error.is_some();
                    if let Some(buffer) = check(world, &side.facts, id, over, outcome, &mut tally, &mut scratch) {
                        if failed {
                            given_back.push_back((id, buffer));
                        }
                    }
                }
                while given_back.len() > WATCHED {
                    let Some((id, buffer)) = given_back.pop_front() else { break };
                    if !buffer.is_as_left() {
                        world.violation(format!("operation {id}: its buffer was written after its callback"));
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) if last.elapsed() < HANG => {}
            Err(_) => {
                for (id, running) in &running {
                    world.violation(format!("operation {id}: no callback after {:?}: {:?}", HANG, running.plan));
                }
                eprintln!("{:?}", side.client.stats());
                // Nothing that comes after could be trusted, and the buffers must stay.
                std::process::exit(1);
            }
        }
    }
    tally.given_back = given_back.into();
    tally
}

fn start(world: &Arc<World>, side: &Arc<Side>, id: u64, sender: &Sender<(u64, Outcome)>) -> Result<Running, Error> {
    let plan = Plan::new(world.seed, id, world.script.size);
    let object = match plan.fresh {
        true => side.client.open(&world.fresh_url(id, &plan), ObjectOptions::default())?,
        false => side.shared[plan.object as usize].clone(),
    };
    let options = ReadOptions { task_size: plan.task_size, deadline: plan.deadline };
    let (its_world, its_side, sender) = (world.clone(), side.clone(), sender.clone());
    let done = Box::new(move |result: &OpResult<'_>| {
        if let Some(entry) = its_world.script.ledger.get(id) {
            entry.callbacks.fetch_add(1, SeqCst);
        }
        let outcome = Outcome {
            error: result.error.cloned(),
            bytes: result.bytes,
            attempts: result.attempts,
            offset: result.offset,
            at: Instant::now(),
        };
        let _ = sender.send((id, outcome));
        its_side.cancel_victim(&its_world, id);
    });
    let moment = chaos::now();
    let begun = Instant::now();
    let mut buffer = Guarded::new(if plan.kind == Kind::Stat { 0 } else { plan.size as usize });
    let pending = match plan.kind {
        Kind::Stat => object.stat(&options, done),
        _ => object.read(plan.offset, buffer.host(), &options, done),
    }?;
    side.accepted.fetch_add(1, SeqCst);
    let op = pending.op().clone();
    pending.submit();
    let mut cancelled_at = None;
    match plan.cancel {
        Cancel::AtOnce => {
            cancelled_at = Some(Instant::now());
            cancel(world, id, &op);
        }
        Cancel::FromCallback => {
            *side.victim.lock().unwrap_or_else(PoisonError::into_inner) = Some((id, op.clone()));
        }
        Cancel::Never | Cancel::After(_) => {}
    }
    Ok(Running { plan, object, op, buffer, moment, begun, cancelled_at })
}
