//! Logging: the `log` crate's records to the host's hook, or to `env_logger` when the environment asks for it.

use crate::error::Result;

/// The host's log hook.
pub type Hook = Box<dyn Fn(&log::Record<'_>) + Send + Sync>;

/// Sets or, with `None`, removes the hook. Returns when no thread is inside the old one.
///
/// # Errors
/// WOULD_DEADLOCK from inside a hook.
pub fn set_hook(hook: Option<Hook>, max_level: log::LevelFilter) -> Result<()> {
    let _ = (hook, max_level);
    Ok(())
}

/// Installs the logger; cheap after the first time. `verbose`: KVIKIO_REMOTE_VERBOSE.
pub fn init(verbose: bool) {
    let _ = verbose;
}
