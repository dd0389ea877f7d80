//! The keys of the configuration as data: what documents, flags and error messages are made from.

/// One key: where its value may come from and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name in the file.
    pub key: &'static str,
    /// Its environment variable.
    pub env: &'static str,
    /// The flag of `host serve` that sets it, without the dashes, if there is one.
    pub flag: Option<&'static str>,
    /// What the flag's value is called in help: `ADDR`.
    pub value_name: &'static str,
    /// Its value if nobody says, for people.
    pub default: &'static str,
    /// What it is for.
    pub about: &'static str,
}

/// One key of a table whose name users choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSetting {
    /// Its name in the file; `NAME` stands for the one that users choose.
    pub key: &'static str,
    /// Its value if the file does not say, for people.
    pub default: &'static str,
    /// What it is for.
    pub about: &'static str,
}

/// How `host worker <wire>` is called.
#[derive(Debug)]
pub struct WorkerRole {
    /// What it does, in one line.
    pub about: &'static str,
    /// Examples and what is printed, below the options.
    pub after_help: &'static str,
    /// What it is doing, for errors: "work for … orchestrators".
    pub doing: &'static str,
    /// Its options, beside those that all workers have.
    pub flags: &'static [WorkerFlag],
}

/// One option of `host worker <wire>`. It sets a key of the wire, if it has an effect.
#[derive(Clone, Copy, Debug)]
pub struct WorkerFlag {
    /// The key it sets; `None` if it has no effect.
    pub key: Option<&'static str>,
    /// Its name, without the dashes.
    pub flag: &'static str,
    /// What its value is called in help. Empty for a switch, which has no value and sets `true`.
    pub value_name: &'static str,
    /// A variable of its own that sets it too, beside the key's.
    pub env: Option<&'static str>,
    /// Whether it may be given again; the values are then joined by commas.
    pub is_repeated: bool,
    /// Whether the worker does not start without it.
    pub is_required: bool,
    /// What it is for.
    pub help: &'static str,
}

impl WorkerFlag {
    /// Makes an option that may be given once and may be left out.
    pub const fn new(
        key: &'static str,
        flag: &'static str,
        value_name: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            key: Some(key),
            flag,
            value_name,
            env: None,
            is_repeated: false,
            is_required: false,
            help,
        }
    }

    /// Makes an option without effect, for peers that pass it.
    pub const fn ignored(flag: &'static str, value_name: &'static str, help: &'static str) -> Self {
        Self {
            key: None,
            ..Self::new("", flag, value_name, help)
        }
    }

    /// The worker does not start without it.
    #[must_use]
    pub const fn required(self) -> Self {
        Self {
            is_required: true,
            ..self
        }
    }

    /// It may be given again.
    #[must_use]
    pub const fn repeated(self) -> Self {
        Self {
            is_repeated: true,
            ..self
        }
    }
}
