//! The keys of the configuration as options of `host serve`: each key that names a flag is one.

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use host_server::config;
use host_wire_kit::section::Stated;
use host_wire_kit::settings::Setting;

/// The values of the command line, by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettingFlags(pub(crate) BTreeMap<String, Stated>);

fn flags() -> impl Iterator<Item = (&'static str, &'static Setting)> {
    config::settings().filter_map(|setting| Some((setting.flag?, setting)))
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        flags().fold(command, |command, (flag, setting)| {
            command.arg(
                Arg::new(setting.key)
                    .long(flag)
                    .value_name(setting.value_name())
                    .help(setting.help(setting.about)),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = flags().filter_map(|(flag, setting)| {
            let text = matches.get_one::<String>(setting.key)?;
            Some((setting.key.to_owned(), Stated::by_flag(flag, text)))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
