//! The keys of the configuration, each declared once, as a field of a struct. Their variables, options, ranges and
//! documentation are derived from the declaration.

/// One key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in the file, with dots: `cells.slots`. In tables whose names users choose, `NAME` is the name.
    pub key: &'static str,
    /// The option of `host serve` that sets it, without the dashes, if there is one.
    pub flag: Option<&'static str>,
    /// What it is for.
    pub about: &'static str,
    /// The placeholder of its value in help; of a switch it is empty.
    pub placeholder: &'static str,
    /// Returns its default, for people.
    pub default: fn() -> String,
    /// Returns what its type expects, as messages say it: `1–256`.
    pub expectation: fn() -> String,
}

impl Setting {
    /// Returns whether it is a key of a table that users name or number. It has no variable.
    pub fn is_in_table(&self) -> bool {
        self.key.contains(".NAME.") || self.key.contains("[].")
    }

    /// Returns the names of its tables and its own.
    pub fn path(&self) -> Vec<&'static str> {
        self.key.split('.').collect()
    }

    /// Returns its environment variable: `HOST_CELLS_SLOTS`.
    pub fn env(&self) -> String {
        let key = self.key.strip_prefix("protocol.").unwrap_or(self.key);
        format!("HOST_{}", key.replace('.', "_").to_uppercase())
    }

    /// Returns whether its values are `true` and `false`.
    pub fn is_switch(&self) -> bool {
        (self.expectation)() == SWITCH
    }

    /// Returns the placeholder of its value in help.
    pub fn value_name(&self) -> &'static str {
        if self.is_switch() {
            "BOOL"
        } else {
            self.placeholder
        }
    }

    /// Returns the range of its values, if they are numbers: `1–1024`.
    fn range(&self) -> Option<String> {
        let expected = (self.expectation)();
        let range = expected.trim_end_matches(" seconds");
        let is_range = range.starts_with(|first: char| first.is_ascii_digit());
        is_range.then(|| range.to_owned())
    }

    /// Describes its values: `1–1024`.
    pub fn values(&self) -> String {
        if self.is_switch() {
            return "true, false".to_owned();
        }
        self.range().unwrap_or_else(|| self.placeholder.to_owned())
    }

    /// Returns the help of an option that sets it.
    pub fn help(&self, about: &str) -> String {
        let default = (self.default)();
        match self.range() {
            Some(range) => format!("{about} [{range}; default: {default}]"),
            None => format!("{about} [default: {default}]"),
        }
    }
}

/// What a switch expects.
const SWITCH: &str = "true or false";

/// Removes the blank with which a doc comment begins.
pub const fn without_blank(about: &str) -> &str {
    match about.as_bytes() {
        [b' ', ..] => about.split_at(1).1,
        _ => about,
    }
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
    /// The key it sets; of an option that is ignored, its own name.
    pub key: &'static str,
    /// The placeholder of an option that is ignored: it sets no key.
    pub ignored: Option<&'static str>,
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
    pub const fn new(flag: &'static str, key: &'static str) -> Self {
        Self {
            flag,
            key,
            ignored: None,
            about: None,
            env: None,
            is_repeated: false,
            is_required: false,
        }
    }

    /// Makes an option that is accepted and ignored.
    pub const fn ignored(
        flag: &'static str,
        value_name: &'static str,
        about: &'static str,
    ) -> Self {
        Self {
            ignored: Some(value_name),
            about: Some(about),
            ..Self::new(flag, flag)
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

    /// Returns what it is for, with the default of the key. A switch has no value.
    pub fn help(&self, setting: Option<&Setting>) -> String {
        let about = self
            .about
            .or(setting.map(|setting| setting.about))
            .unwrap_or_default();
        match setting {
            Some(setting)
                if !self.is_required && !setting.is_switch() && (setting.default)() != "none" =>
            {
                setting.help(about)
            }
            _ => about.to_owned(),
        }
    }
}
