//! Declares refusals: each is written once, in its row.

/// Declares the refusals of a feature: `#[error(SENTENCE)] VARIANT = KIND status "code", "title", "meaning", "next";`.
/// Add `retry seconds` before the semicolon if the request may be repeated. A refusal of the kind of an earlier one ends
/// after the kind.
macro_rules! refusals {
    (
        $(#[$doc:meta])*
        pub enum $name:ident {
            $(
                $(#[$meta:meta])*
                $variant:ident $(($($tuple:tt)*))? $({$($field:tt)*})? = $kind:ident $(
                    $status:literal $code:literal, $title:literal, $meaning:literal, $next:literal $(retry $retry:literal)?
                )?;
            )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        pub enum $name {
            $($(#[$meta])* $variant $(($($tuple)*))? $({$($field)*})?,)+
        }

        impl $name {
            /// Returns its kind, which is the same for every request.
            pub fn kind(&self) -> &'static host_core::problem::Kind {
                use self::kinds::*;
                match self {
                    $(Self::$variant { .. } => &$kind),+
                }
            }
        }

        /// The kinds of these refusals.
        pub mod kinds {
            $($(
                #[doc = $title]
                pub static $kind: host_core::problem::Kind = {
                    let retry: &[u32] = &[$($retry)?];
                    host_core::problem::Kind {
                        code: $code,
                        status: $status,
                        title: $title,
                        meaning: $meaning,
                        next: $next,
                        retry_after_seconds: retry.first().copied(),
                    }
                };
            )?)+
        }

        /// All of these kinds.
        pub static KINDS: &[&host_core::problem::Kind] = &[$($({
            // The code makes this one entry for each kind that is declared.
            let _: &str = $code;
            &kinds::$kind
        },)?)+];
    };
}
pub(crate) use refusals;
