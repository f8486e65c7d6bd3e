//! Limits that functions and plan rules read from DataFusion's configuration.

use datafusion::common::extensions_options;
use datafusion::config::{ConfigExtension, ConfigOptions};
use rowmill_base::Settings;

extensions_options! {
    /// The connection's limits, as far as code inside DataFusion needs them.
    pub struct GuardOptions {
        /// `result_value_max_bytes`: bytes of a batch that one function may make.
        pub result_value_max_bytes: u64, default = 256 << 20
        /// `recursion_max`: rounds of a recursive query.
        pub recursion_max: u64, default = 100_000
    }
}

impl ConfigExtension for GuardOptions {
    const PREFIX: &'static str = "rowmill";
}

impl From<&Settings> for GuardOptions {
    fn from(settings: &Settings) -> Self {
        GuardOptions {
            result_value_max_bytes: settings.number("result_value_max_bytes"),
            recursion_max: settings.number("recursion_max"),
        }
    }
}

impl GuardOptions {
    /// The limits in `config`, or the defaults where nobody put any.
    pub fn of(config: &ConfigOptions) -> GuardOptions {
        config.extensions.get::<GuardOptions>().cloned().unwrap_or_default()
    }

    /// Puts these limits into `config`.
    pub fn install(self, config: &mut ConfigOptions) {
        config.extensions.insert(self);
    }
}
