//! Bugs that tests plant on purpose, and the type of a machine that has none (docs/decisions/0014-faults-are-a-type.md).
//!
//! A machine is generic over its faults. Every product builds it with [`NoFaults`], whose answers are constants, so that the compiler
//! drops the code of a bug. Only the simulated worlds of tests build it with a set of planted bugs. Each protocol declares its own faults.

/// No faults: what every product runs with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoFaults;

/// Declares faults once: as questions that a machine asks, and as the set of those that a test plants.
#[macro_export]
macro_rules! faults {
    (
        $(#[$about:meta])*
        $faults:ident, $planted:ident:
        $($(#[$what:meta])* $name:ident,)*
    ) => {
        $(#[$about])*
        ///
        /// The checks must catch every one of them. An implementation without methods has none.
        pub trait $faults: Clone + Copy + ::std::fmt::Debug + Default + Send + Sync + 'static {
            $($(#[$what])* fn $name(&self) -> bool { false })*
        }

        /// A set of faults, chosen at run time.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $planted {
            $($(#[$what])* pub $name: bool,)*
        }

        impl $faults for $planted {
            $(fn $name(&self) -> bool { self.$name })*
        }

        impl $faults for $crate::faults::NoFaults {}
    };
}
pub use faults;
