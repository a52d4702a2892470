//! Failures that many routes share.

use muster_model::people::PeopleDenial;

use super::route_doc::RouteDoc;
use crate::error::ApiError;
use crate::port::PortError;

/// Stands for whatever a failure names.
pub(crate) const fn any() -> String {
    String::new()
}

impl RouteDoc {
    /// It is about one job, which the path names.
    pub(crate) fn of_job(self) -> Self {
        self.fails([PortError::NoJob(any()), PortError::Forbidden(any())])
    }

    /// Only the owner of what the path names, and admins, may do it.
    pub(crate) fn of_owner(self) -> Self {
        let (user, what) = (any(), any());
        self.fails([ApiError::NotOwner { user, what }])
    }

    /// It is about one task of a job attempt, which the path names.
    pub(crate) fn of_task(self) -> Self {
        self.of_job().fails([PortError::NoTask {
            job: any(),
            task: any(),
        }])
    }

    /// It refuses values of parameters.
    pub(crate) fn checks_parameters(self) -> Self {
        self.fails([ApiError::Parameters(any())])
    }

    /// It changes what the cluster or this node keeps.
    pub(crate) fn changes_cluster(self) -> Self {
        self.fails([PortError::Invalid(any()), PortError::NotNow(any())])
    }

    /// It changes users or groups.
    pub(crate) fn changes_people(self) -> Self {
        let changed = PeopleDenial::Changed {
            subject: any(),
            seen: 0,
            current: 0,
        };
        let invalid = PeopleDenial::Invalid {
            field: any(),
            problem: any(),
        };
        self.header(
            "If-Match",
            "The `ETag` that a GET of the same user or group answered: 412 if it was changed since.",
        )
        .checks_parameters()
        .fails([changed, invalid, PeopleDenial::Busy].map(PortError::from))
    }

    /// It changes a user.
    pub(crate) fn changes_user(self) -> Self {
        let denials = [
            PeopleDenial::NoUser(any()),
            PeopleDenial::NoGroup(any()),
            PeopleDenial::NoVc(any()),
            PeopleDenial::AdminVcs(any()),
            PeopleDenial::LastAdmin(any()),
            PeopleDenial::GroupNeeded(any()),
        ];
        self.changes_people().fails(denials.map(PortError::from))
    }

    /// It changes a group.
    pub(crate) fn changes_group(self) -> Self {
        let denials = [PeopleDenial::LastAdmin(any()), PeopleDenial::NoVc(any())];
        self.changes_people()
            .fails(denials.map(PortError::from))
            .fails([ApiError::NoGroup(any())])
    }

    /// It checks the password that a user has until now.
    pub(crate) fn checks_old_password(self) -> Self {
        self.checks_password()
            .fails([PortError::from(PeopleDenial::WrongPassword)])
    }

    /// It checks a password.
    pub(crate) fn checks_password(self) -> Self {
        self.fails([ApiError::TooManyWrong { retry_s: 0 }])
            .fails([PortError::LoginsBusy])
    }
}
