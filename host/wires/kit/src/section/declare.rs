//! How a section is declared: a struct that serde reads, and in the same place what people read about its keys.

/// Declares structs that serde reads from tables of the configuration: each with what stands before its keys, and a field
/// for each key. A field has its description as a comment, the option of `host serve` in brackets, the placeholder of its
/// values in help, its type and, if that has no default value, the default in words. Behind `..` come fields that are tables
/// of their own.
#[macro_export]
macro_rules! settings {
    ($(
        $visibility:vis struct $name:ident $prefix:literal {
            $(
                $(#[doc = $about:expr])+
                $field:ident $([$flag:literal])? $($placeholder:literal)? : $type:ty $(= $words:expr)?,
            )*
            $(.. $($table:ident : $table_type:ty),+ $(,)?)?
        }
    )+) => {$(
        #[derive(Default, ::serde::Deserialize)]
        #[serde(deny_unknown_fields, expecting = "a table")]
        $visibility struct $name {
            $(#[serde(default)] $visibility $field: $type,)*
            $($(#[serde(default)] $visibility $table: $table_type,)+)?
        }

        impl $name {
            /// All keys of the table.
            $visibility const SETTINGS: &'static [$crate::settings::Setting] = &[$(
                $crate::settings::Setting {
                    key: concat!($prefix, stringify!($field)),
                    flag: $crate::settings!(@flag $($flag)?),
                    about: $crate::settings::without_blank(concat!($($about),+)),
                    placeholder: concat!($($placeholder)?),
                    default: $crate::settings!(@default $type $(, $words)?),
                    expectation: $crate::section::expectation::<$type>,
                },
            )*];
        }
    )+};
    (@flag) => { None };
    (@flag $flag:literal) => { Some($flag) };
    (@default $type:ty) => { <$type as $crate::section::Fallback>::text };
    (@default $type:ty, $words:expr) => { || $words.to_owned() };
}

/// Declares the documentation of keys whose tables are read as the API reads them: with what stands before the keys, and
/// each key with its description and its default.
#[macro_export]
macro_rules! documented_settings {
    ($visibility:vis $all:ident $prefix:literal { $($(#[doc = $about:expr])+ $key:literal = $words:expr,)+ }) => {
        $visibility const $all: &[$crate::settings::Setting] = &[$(
            $crate::settings::Setting {
                key: concat!($prefix, $key),
                flag: None,
                about: $crate::settings::without_blank(concat!($($about),+)),
                placeholder: "",
                default: || $words.to_owned(),
                expectation: String::new,
            },
        )+];
    };
}
