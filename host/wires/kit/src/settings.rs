//! The keys of the configuration, each declared once. Their variables, flags, ranges and documentation are
//! derived from the declaration.

use std::ops::RangeInclusive;

/// One key of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name in the file, with dots: `cells.slots`.
    pub key: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// Its default, for people; parsed if it is a value.
    pub default: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// The flag of `host serve` that sets it, without the dashes, if there is one.
    pub flag: Option<&'static str>,
}

/// The kind of a key's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text, with the placeholder for help: `PATH`.
    Text(&'static str),
    /// Texts, with the placeholder for help: an array, or one text with commas.
    List(&'static str),
    /// A whole number, with the placeholder for help (`MS`), the least and the greatest value.
    Number(&'static str, u64, u64),
    /// A duration in seconds, with or without a fraction, up to this number.
    Seconds(u64),
    /// `true` or `false`.
    Switch,
}

impl Setting {
    /// Returns its environment variable: `HOST_CELLS_SLOTS`.
    pub fn env(&self) -> String {
        let key = self.key.strip_prefix("protocol.").unwrap_or(self.key);
        format!("HOST_{}", key.replace('.', "_").to_uppercase())
    }

    /// Returns the placeholder of its value in help.
    pub const fn value_name(&self) -> &'static str {
        match self.kind {
            Kind::Text(name) | Kind::List(name) | Kind::Number(name, ..) => name,
            Kind::Seconds(_) => "SECONDS",
            Kind::Switch => "BOOL",
        }
    }

    /// Returns the range of its values, if they are numbers.
    pub const fn range(&self) -> RangeInclusive<u64> {
        match self.kind {
            Kind::Number(_, least, most) => least..=most,
            Kind::Seconds(most) => 0..=most,
            Kind::Text(_) | Kind::List(_) | Kind::Switch => 0..=u64::MAX,
        }
    }

    /// Describes its values: `1–1024`.
    pub fn values(&self) -> String {
        match self.kind {
            Kind::Text(name) | Kind::List(name) => name.to_owned(),
            Kind::Number(_, least, most) => format!("{least}–{most}"),
            Kind::Seconds(most) => format!("0–{most}"),
            Kind::Switch => "true, false".to_owned(),
        }
    }

    /// Returns the help of a flag that sets it.
    pub fn help(&self, about: &str) -> String {
        let default = self.default;
        match self.kind {
            Kind::Number(..) | Kind::Seconds(_) => {
                format!("{about} [{}; default: {default}]", self.values())
            }
            Kind::Text(_) | Kind::List(_) | Kind::Switch => {
                format!("{about} [default: {default}]")
            }
        }
    }
}

/// Declares the keys of a section, each in one row: its constant, key, kind, default and purpose; the key may
/// be followed by the flag of `host serve`, in brackets. The name of the list comes first.
#[macro_export]
macro_rules! settings {
    ($visibility:vis $all:ident: $(
        $name:ident = $key:literal $([$flag:literal])?, $kind:ident $(($($argument:expr),+))?,
            $default:literal, $about:expr;
    )+) => {
        $(
            $visibility const $name: $crate::settings::Setting =
                $crate::settings::Setting {
                    key: $key,
                    kind: $crate::settings::Kind::$kind $(($($argument),+))?,
                    default: $default,
                    about: $about,
                    flag: $crate::settings!(@flag $($flag)?),
                };
        )+
        /// All keys of the section.
        $visibility const $all: &[$crate::settings::Setting] = &[$($name,)+];
    };
    (@flag) => { None };
    (@flag $flag:literal) => { Some($flag) };
}

/// One key of a table whose name users choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSetting {
    /// Its name in the file, with `NAME` for the name that users choose.
    pub key: &'static str,
    /// Its default, for people.
    pub default: &'static str,
    /// What it is for.
    pub about: &'static str,
}

/// Declares the keys of tables whose names users choose, each in one row: key, default and purpose.
#[macro_export]
macro_rules! table_settings {
    ($visibility:vis $all:ident: $($key:literal, $default:literal, $about:expr;)+) => {
        /// All keys of the section's tables.
        $visibility const $all: &[$crate::settings::TableSetting] = &[$(
            $crate::settings::TableSetting {
                key: $key,
                default: $default,
                about: $about,
            },
        )+];
    };
}

/// The command line of `host worker <wire>`.
#[derive(Debug)]
pub struct WorkerRole {
    /// What it does, in one line.
    pub about: &'static str,
    /// Examples and a description of the output, below the options.
    pub after_help: &'static str,
    /// What it is doing, for errors: "work for … orchestrators".
    pub doing: &'static str,
    /// Its options, beside those that all workers have.
    pub flags: &'static [WorkerFlag],
    /// The codes of refusals that are a part of the work, like that of a worker without room.
    pub usual_refusals: &'static [&'static str],
}

/// One option of `host worker <wire>`: it sets a key of the wire.
#[derive(Clone, Copy, Debug)]
pub struct WorkerFlag {
    /// Its name, without the dashes.
    pub flag: &'static str,
    /// The key it sets.
    pub setting: Setting,
    /// What it is for, if the help differs from that of the key.
    pub about: Option<&'static str>,
    /// A variable that sets it too, beside the key's.
    pub env: Option<&'static str>,
    /// Whether it may be repeated; the values are then joined by commas.
    pub is_repeated: bool,
    /// Whether it is required.
    pub is_required: bool,
}

impl WorkerFlag {
    /// Makes an option that is not required and not repeated.
    pub const fn new(flag: &'static str, setting: Setting) -> Self {
        Self {
            flag,
            setting,
            about: None,
            env: None,
            is_repeated: false,
            is_required: false,
        }
    }

    /// Replaces the help of the key.
    #[must_use]
    pub const fn about(self, about: &'static str) -> Self {
        Self {
            about: Some(about),
            ..self
        }
    }

    /// Makes it required.
    #[must_use]
    pub const fn required(self) -> Self {
        Self {
            is_required: true,
            ..self
        }
    }

    /// Allows repeating it.
    #[must_use]
    pub const fn repeated(self) -> Self {
        Self {
            is_repeated: true,
            ..self
        }
    }

    /// Returns what it is for, with its default. A switch has no value.
    pub fn help(&self) -> String {
        let setting = self.setting;
        let about = self.about.unwrap_or(setting.about);
        let is_plain = self.is_required || setting.default == "none";
        if is_plain || setting.kind == Kind::Switch {
            return about.to_owned();
        }
        setting.help(about)
    }
}
