//! The names that the linker gives to functions under `--wrap`.
//!
//! Written in assembly because `#[no_mangle]` would make them ones that `libraskio.so` exports.

/// The instruction that goes on in another function, as a beginning of its text.
#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    () => {
        "jmp "
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    () => {
        "b "
    };
}

/// A hidden function of this name, which consists of these instructions.
macro_rules! hidden {
    ($name:expr, $($text:expr),+ $(; $($operand:tt)+)?) => {
        std::arch::global_asm!(
            concat!(".pushsection .text.", $name, ",\"ax\",@progbits"),
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ",@function"),
            concat!($name, ":"),
            $($text,)+
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            $($($operand)+)?
        );
    };
}

/// Calls of `$wrapped` come to `$instead` where `--wrap=$wrapped` is said to the linker.
macro_rules! wrap {
    ($wrapped:literal, $instead:ident) => {
        $crate::sys::curl::wrap::hidden!(
            concat!("__wrap_", $wrapped), concat!($crate::sys::curl::wrap::jump!(), "{instead}"); instead = sym $instead
        );
    };
}

/// What `--wrap=$wrapped` hides, by the name `$real`. The reference is weak: without the option there is none, and nobody calls it.
macro_rules! real {
    ($wrapped:literal, $real:literal) => {
        #[cfg(target_arch = "x86_64")]
        $crate::sys::curl::wrap::hidden!(
            $real,
            concat!(".weak __real_", $wrapped),
            concat!("jmp qword ptr [rip + __real_", $wrapped, "@GOTPCREL]")
        );
        #[cfg(target_arch = "aarch64")]
        $crate::sys::curl::wrap::hidden!(
            $real,
            concat!(".weak __real_", $wrapped),
            concat!("adrp x16, :got:__real_", $wrapped),
            concat!("ldr x16, [x16, :got_lo12:__real_", $wrapped, "]"),
            "br x16"
        );
    };
}

pub(super) use {hidden, jump, real, wrap};
