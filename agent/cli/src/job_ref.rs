//! How users name a job.

use std::str::FromStr;

use clap::Args;
use muster_model::id::{self, JobKey, JobName, UserName};

use super::api::Api;
use super::endpoint::EndpointArguments;
use super::error::CliError;

/// `user~name`, or a bare name of the acting user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JobRef {
    /// With its user.
    Full(JobKey),
    /// Without.
    Bare(JobName),
}

impl FromStr for JobRef {
    type Err = id::InvalidName;

    fn from_str(text: &str) -> Result<Self, id::InvalidName> {
        if text.contains('~') {
            text.parse().map(Self::Full)
        } else {
            text.parse().map(Self::Bare)
        }
    }
}

impl JobRef {
    /// The job in full: a bare name is one of the acting user's.
    pub(super) fn key(self, api: &Api) -> Result<JobKey, CliError> {
        match self {
            Self::Full(key) => Ok(key),
            Self::Bare(name) => {
                let user = api.user()?;
                Ok(JobKey { user, name })
            }
        }
    }
}

/// Who a command acts as.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Acting {
    /// Whose jobs bare names mean, and who submits them through the socket
    /// [default: the token's user, else admin].
    #[arg(long, value_name = "USER", env = "MUSTER_USER")]
    user: Option<UserName>,
}

impl Acting {
    /// The agent, spoken to as this user.
    pub(super) fn api(&self, connection: &EndpointArguments) -> Result<Api, CliError> {
        Api::new(connection, self.user.clone())
    }
}

/// The job a command is about, and who acts.
#[derive(Clone, Debug, Args)]
pub(super) struct JobArgument {
    /// The job: user~name, or the name alone.
    #[arg(value_name = "JOB")]
    job: JobRef,
    #[command(flatten)]
    acting: Acting,
}

impl JobArgument {
    /// The agent to ask and the job in full.
    pub(super) fn resolve(self, connection: &EndpointArguments) -> Result<(Api, JobKey), CliError> {
        let api = self.acting.api(connection)?;
        let key = self.job.key(&api)?;
        Ok((api, key))
    }
}
