//! Why a request was not done, and how that looks on the wire.
//!
//! The only place that knows HTTP status numbers and OpenPAI's `code` strings for failures.

use http::StatusCode;
use muster_model::people::PeopleDenial;
use muster_model::protocol::remarks;
use muster_model::remark::Remark;
use muster_model::storage_file::FileDenialKind;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::port;

/// When to try again where all connections are in use, in seconds.
const FULL_RETRY_S: u64 = 5;
/// When to try again where too many transfers with storages run, in seconds.
const TRANSFERS_RETRY_S: u64 = 2;
/// When to try again where too many passwords are being checked, in seconds.
const LOGINS_RETRY_S: u64 = 1;

/// Why a request was not done. Nothing has changed unless a variant says otherwise.
/// Display is the `message` that clients show.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("Guest is not allowed to do this operation.")]
    Guest,
    #[error("Applications are not allowed to do this operation.")]
    ApplicationToken,
    // sic: OpenPAI's own tests compare it.
    #[error("Non-admin is not allow to do this operation.")]
    NotAdmin,
    #[error("User {user} is not allowed to do this operation on {what}.")]
    NotOwner { user: String, what: String },
    #[error(
        "User {user} is no admin and sees their own usage only, not that of {of}: leave `user` and `all` out"
    )]
    OthersUsage { user: String, of: String },
    #[error("API {0} is not found.")]
    NoApi(String),
    #[error("{0}")]
    Parameters(String),
    /// The body is no JSON; upstream answers without a code.
    #[error("{0}")]
    Syntax(String),
    #[error("request entity too large: at most {limit} bytes are taken here")]
    TooLarge { limit: usize },
    #[error(
        "a body in the encoding {0:?} is not taken; send it as it is, or with Content-Encoding gzip \
         or deflate"
    )]
    Encoding(String),
    #[error("the body is not what its Content-Encoding says: {0}")]
    Inflate(String),
    #[error("the method {0} is not allowed")]
    Method(String),
    #[error(
        "{0:?} is no name of this machine; if it is one, add it to http.host_names in agent.toml, or \
         use the machine's address"
    )]
    HostName(String),
    #[error("the request body did not arrive in time")]
    Slow,
    #[error("the request body broke off: {0}")]
    Broken(String),
    #[error("this is a WebSocket, by HTTP/1.1: {0}")]
    Upgrade(&'static str),
    #[error("SSH info of job {0} is not found.")]
    NoSsh(String),
    #[error("Vc {0} not found")]
    NoVc(String),
    #[error("The portal has no plugin {0:?}. An admin adds one in portal.plugins of the policy.")]
    NoPlugin(String),
    #[error("Cannot get sku types for virtual cluster {0}.")]
    NoSkus(String),
    #[error("Group {0} is not found.")]
    NoGroup(String),
    /// As upstream says it of a new user.
    #[error("No groups for vc: {0}")]
    NoVcGroup(String),
    #[error("Storage {0} is not found.")]
    NoStorage(String),
    #[error("User {user} is not allowed to access {storage}.")]
    StorageNotGranted { user: String, storage: String },
    /// On the routes that upstream gave up.
    #[error("{what} {name} is not found.")]
    NoOldStorage { what: &'static str, name: String },
    /// Only admins read a document that may hold secrets.
    #[error("Document {0} may hold passwords: only admins read it.")]
    SecretDocument(String),
    /// In the words of Prometheus.
    #[error("{0}")]
    Figures(String),
    /// As above where upstream itself answers 400.
    #[error("{0} not implemented in k8s")]
    NotImplementedUpstream(&'static str),
    #[error("the log link is not valid or has expired; list the logs again")]
    LogLink,
    #[error("the log holds {size} bytes, the range begins behind them")]
    Range { size: u64 },
    #[error("the file holds {size} bytes, the range begins behind them")]
    FileRange { size: u64 },
    #[error("Too many requests, please try again later.")]
    TooMany { limit: u32, reset_s: u64 },
    #[error(
        "too many wrong passwords of this user from your address; try again in {retry_s} s, or \
         log in from another address"
    )]
    TooManyWrong { retry_s: u64 },
    /// A form that no page of this session sent.
    #[error(
        "this form was not sent by a page of your session; nothing was changed. Load the page again \
         and repeat what you did"
    )]
    ForeignForm,
    /// A request in clear from where TLS is needed.
    #[error(
        "a plain HTTP request was sent to an HTTPS port: write https:// in place of http://, and \
         do not send the password again before. The certificate's fingerprint is told by `muster \
         node show` on that machine; tls.enabled = false in agent.toml admits plain HTTP"
    )]
    Plain,
    /// The browser that comes back did not begin the login, began it long ago, or has ended it.
    #[error(
        "this login was not begun in this browser, has taken too long, or has ended before; log in \
         again"
    )]
    OidcState,
    /// The identity provider does not vouch for the person, or not for a user of this cluster.
    #[error("{0}")]
    Oidc(String),
    /// What came as a logout token of the identity provider is none.
    #[error("the logout token is refused: {0}")]
    LogoutToken(String),
    /// The device flow is not to be had.
    #[error("{0}")]
    NoDeviceLogin(&'static str),
    /// Not a login that a member of this cluster has begun, or one that has ended.
    #[error(
        "the handle is not that of a login which this cluster has begun and which is under way; begin \
         a new one"
    )]
    DeviceHandle,
    /// The person took too long.
    #[error("the code has expired before it was used; begin a new login")]
    DeviceExpired,
    /// The person, or the provider on their behalf, said no.
    #[error("the login was refused at the identity provider")]
    DeviceDenied,
    /// People log in by the identity provider alone.
    #[error("logins by password are switched off; log in by the identity provider")]
    NoPasswords,
    /// Every slot of the address is in use.
    #[error(
        "your address has as many connections as it may, all of them with requests; close some, \
         or have the admin raise http.connections_per_address in agent.toml"
    )]
    Full,
    #[error("the answer could not be built: {0}")]
    Answer(String),
    #[error(transparent)]
    Cluster(#[from] port::PortError),
}

impl ApiError {
    /// The status and, unless upstream gives none, the `code`.
    pub(crate) fn code(&self) -> (StatusCode, Option<&'static str>) {
        use StatusCode as S;
        match self {
            Self::StorageNotGranted { .. } | Self::SecretDocument(_) => {
                (S::FORBIDDEN, Some("ForbiddenUserError"))
            }
            Self::NoOldStorage { .. } => (S::NOT_FOUND, Some("NoStorageError")),
            Self::Guest => (S::UNAUTHORIZED, Some("UnauthorizedUserError")),
            Self::ApplicationToken
            | Self::NotAdmin
            | Self::NotOwner { .. }
            | Self::OthersUsage { .. }
            | Self::LogLink => (S::FORBIDDEN, Some("ForbiddenUserError")),
            Self::NoApi(_) => (S::NOT_FOUND, Some("NoApiError")),
            Self::Parameters(_) => (S::BAD_REQUEST, Some("InvalidParametersError")),
            Self::Syntax(_) | Self::Broken(_) => (S::BAD_REQUEST, None),
            Self::Encoding(_) => (S::UNSUPPORTED_MEDIA_TYPE, None),
            Self::Inflate(_) => (S::BAD_REQUEST, None),
            Self::Method(_) => (S::METHOD_NOT_ALLOWED, Some("NoApiError")),
            Self::HostName(_) => (S::FORBIDDEN, Some("ForbiddenHostError")),
            Self::TooLarge { .. } => (S::PAYLOAD_TOO_LARGE, None),
            Self::Slow => (S::REQUEST_TIMEOUT, None),
            Self::NoSsh(_) => (S::NOT_FOUND, Some("NoJobSshInfoError")),
            Self::NoPlugin(_) => (S::NOT_FOUND, None),
            Self::NoVc(_) | Self::NoSkus(_) => (S::NOT_FOUND, Some("NoVirtualClusterError")),
            Self::NoGroup(_) => (S::BAD_REQUEST, Some("NoGroupError")),
            Self::NoVcGroup(_) => (S::NOT_FOUND, Some("NoGroupError")),
            Self::NoStorage(_) => (S::NOT_FOUND, Some("NoStorageError")),
            Self::Figures(_) => (S::BAD_REQUEST, None),
            Self::NotImplementedUpstream(_) => (S::BAD_REQUEST, Some("NotImplementedError")),
            Self::Range { .. } | Self::FileRange { .. } => {
                (S::RANGE_NOT_SATISFIABLE, Some("InvalidParametersError"))
            }
            Self::Upgrade(_) => (S::UPGRADE_REQUIRED, Some("WebSocketNeededError")),
            Self::TooMany { .. } => (S::TOO_MANY_REQUESTS, None),
            Self::ForeignForm => (S::FORBIDDEN, Some("ForeignFormError")),
            Self::TooManyWrong { .. } => (S::TOO_MANY_REQUESTS, Some("TooManyLoginsError")),
            Self::Plain => (S::BAD_REQUEST, Some("HttpsRequiredError")),
            Self::OidcState => (S::BAD_REQUEST, Some("LoginStateError")),
            Self::Oidc(_) => (S::UNAUTHORIZED, Some("IdentityProviderError")),
            Self::LogoutToken(_) => (S::BAD_REQUEST, Some("LogoutTokenError")),
            Self::NoDeviceLogin(_) => (S::NOT_FOUND, Some("NoDeviceLoginError")),
            Self::DeviceHandle => (S::BAD_REQUEST, Some("LoginHandleError")),
            Self::DeviceExpired => (S::BAD_REQUEST, Some("LoginExpiredError")),
            Self::DeviceDenied => (S::FORBIDDEN, Some("LoginDeniedError")),
            Self::NoPasswords => (S::FORBIDDEN, Some("PasswordLoginError")),
            Self::Full => (S::SERVICE_UNAVAILABLE, Some("TooManyConnectionsError")),
            Self::Answer(_) => (S::INTERNAL_SERVER_ERROR, Some("UnknownError")),
            Self::Cluster(error) => cluster_code(error),
        }
    }

    /// Whether somebody was not let in.
    pub(crate) const fn is_refused_login(&self) -> bool {
        use port::PortError as E;
        matches!(
            self,
            Self::TooManyWrong { .. }
                | Self::Cluster(E::NoUser(_) | E::WrongPassword | E::LoginsBusy)
        )
    }

    /// Whether somebody gave a wrong password of theirs, in order to change it.
    pub(crate) const fn is_wrong_old_password(&self) -> bool {
        matches!(
            self,
            Self::Cluster(port::PortError::People(PeopleDenial::WrongPassword))
        )
    }

    /// When the same may work, in seconds from now, where a client is told so.
    pub(crate) fn retry_s(&self) -> Option<u64> {
        match self {
            Self::TooMany { reset_s, .. } => Some(*reset_s),
            Self::TooManyWrong { retry_s } => Some(*retry_s),
            Self::Full => Some(FULL_RETRY_S),
            Self::Cluster(port::PortError::File(denial)) => match denial.kind {
                FileDenialKind::TooMany | FileDenialKind::NodeFull => Some(TRANSFERS_RETRY_S),
                _ => None,
            },
            Self::Cluster(
                port::PortError::LoginsBusy | port::PortError::People(PeopleDenial::Busy),
            ) => Some(LOGINS_RETRY_S),
            _ => None,
        }
    }

    /// The JSON body.
    pub(crate) fn body(&self) -> Value {
        let body = match self {
            Self::Figures(text) => serde_json::to_value(PrometheusError::new(text)),
            _ => serde_json::to_value(ErrorBody::of(self)),
        };
        // Texts and numbers alone: there is nothing that cannot be written.
        body.unwrap_or_default()
    }
}

/// Why something was not done.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorBody {
    /// Tells kinds of failures apart. Absent where OpenPAI has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    code: Option<&'static str>,
    /// For people.
    message: String,
    /// Beyond OpenPAI: where in a job each thing is wrong, and what would be right.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<Vec<Remark>>,
    /// For a client that lost the answer to its first try: whether the job that is there is the one that it
    /// sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    same: Option<bool>,
    /// The version that a document has by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    current_version: Option<u64>,
    /// The revision that a user or group has by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    current_revision: Option<u64>,
}

impl ErrorBody {
    fn of(error: &ApiError) -> Self {
        use port::PortError as E;
        let mut body = Self {
            code: error.code().1,
            message: error.to_string(),
            ..Self::default()
        };
        if let ApiError::Cluster(error) = error {
            match error {
                E::InvalidJob(found) | E::NoStorage(found) => body.errors = Some(remarks(found)),
                E::JobExists { same, .. } => body.same = *same,
                E::DocumentConflict { current, .. } => body.current_version = Some(*current),
                E::People(PeopleDenial::Changed { current, .. }) => {
                    body.current_revision = Some(*current);
                }
                _ => {}
            }
        }
        body
    }
}

/// The same in the words of Prometheus.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PrometheusError {
    status: &'static str,
    error_type: &'static str,
    error: String,
}

impl PrometheusError {
    fn new(error: &str) -> Self {
        Self {
            status: "error",
            error_type: "bad_data",
            error: error.to_owned(),
        }
    }
}

fn cluster_code(error: &port::PortError) -> (StatusCode, Option<&'static str>) {
    use StatusCode as S;
    use port::PortError as E;
    let (status, code) = match error {
        E::NoUser(_) => (S::BAD_REQUEST, "NoUserError"),
        E::WrongPassword => (S::BAD_REQUEST, "IncorrectPasswordError"),
        E::LoginsBusy => (S::TOO_MANY_REQUESTS, "TooManyLoginsError"),
        E::NoToken => (S::NOT_FOUND, "NoTokenError"),
        E::InvalidToken => (S::UNAUTHORIZED, "UnauthorizedUserError"),
        E::Forbidden(_) | E::Hidden(_) => (S::FORBIDDEN, "ForbiddenUserError"),
        E::NoJob(_) | E::NoAttempt { .. } | E::NoTask { .. } => (S::NOT_FOUND, "NoJobError"),
        E::NoTag(_) => (S::NOT_FOUND, "NoTagError"),
        E::NoLog => (S::NOT_FOUND, "NoTaskLogError"),
        E::NoImage(_) => (S::NOT_FOUND, "NoImageError"),
        E::File(denial) => file_code(denial.kind),
        E::NoStorage(_) => (S::NOT_FOUND, "NoStorageError"),
        E::JobExists { .. } => (S::CONFLICT, "ConflictJobError"),
        E::InvalidJob(_) => (S::BAD_REQUEST, "InvalidProtocolError"),
        E::Unavailable(_) => (S::SERVICE_UNAVAILABLE, "UnknownError"),
        E::Invalid(_) => (S::BAD_REQUEST, "InvalidParametersError"),
        E::NoDocument(_) | E::NoVersion { .. } => (S::NOT_FOUND, "NoDocumentError"),
        E::NoMember(_) => (S::NOT_FOUND, "NoMemberError"),
        E::NoPart(_) => (S::NOT_FOUND, "NoPartError"),
        E::NoVc(_) => (S::NOT_FOUND, "NoVirtualClusterError"),
        E::NoJoinToken(_) => (S::NOT_FOUND, "NoTokenError"),
        E::DocumentConflict { .. } => (S::CONFLICT, "ConflictDocumentError"),
        E::InvalidDocument(_) => (S::BAD_REQUEST, "InvalidDocumentError"),
        E::NotNow(_) => (S::CONFLICT, "ConflictClusterError"),
        E::JoinRefused(_) => (S::CONFLICT, "JoinRefusedError"),
        E::JoinBusy(_) => (S::SERVICE_UNAVAILABLE, "JoinBusyError"),
        E::People(denial) => people_code(denial),
    };
    (status, Some(code))
}

const fn file_code(kind: FileDenialKind) -> (StatusCode, &'static str) {
    use FileDenialKind as D;
    use StatusCode as S;
    match kind {
        D::NoPath => (S::NOT_FOUND, "NoFileError"),
        D::Bad => (S::BAD_REQUEST, "InvalidParametersError"),
        D::ReadOnly => (S::FORBIDDEN, "ReadOnlyStorageError"),
        D::Full => (S::INSUFFICIENT_STORAGE, "StorageFullError"),
        D::Changed => (S::CONFLICT, "FileChangedError"),
        D::Running => (S::CONFLICT, "UploadRunningError"),
        D::Range => (S::RANGE_NOT_SATISFIABLE, "InvalidParametersError"),
        D::TooMany => (S::TOO_MANY_REQUESTS, "TooManyTransfersError"),
        D::NodeFull => (S::SERVICE_UNAVAILABLE, "TooManyTransfersError"),
        D::Unusable => (S::SERVICE_UNAVAILABLE, "StorageUnusableError"),
    }
}

fn people_code(denial: &PeopleDenial) -> (StatusCode, &'static str) {
    use PeopleDenial as D;
    use StatusCode as S;
    match denial {
        D::NoUser(_) => (S::NOT_FOUND, "NoUserError"),
        D::UserExists(_) => (S::CONFLICT, "ConflictUserError"),
        D::NoGroup(_) => (S::NOT_FOUND, "NoGroupError"),
        D::GroupExists(_) => (S::CONFLICT, "ConflictGroupError"),
        D::NoVc(_) => (S::BAD_REQUEST, "NoVirtualClusterError"),
        D::WrongPassword | D::AdminVcs(_) => (S::FORBIDDEN, "ForbiddenUserError"),
        D::Busy => (S::SERVICE_UNAVAILABLE, "TooManyLoginsError"),
        D::RemoveAdmin(_) | D::LastAdmin(_) => (S::FORBIDDEN, "RemoveAdminError"),
        D::GroupNeeded(_) => (S::FORBIDDEN, "ForbiddenKeyError"),
        D::Changed { .. } => (S::PRECONDITION_FAILED, "ConflictRevisionError"),
        D::Invalid { .. } => (S::BAD_REQUEST, "InvalidParametersError"),
    }
}

#[cfg(test)]
mod tests {
    use muster_model::protocol::{JobProblem, ProblemAdvice};
    use serde_json::json;

    use super::*;

    fn schema(message: &str) -> JobProblem {
        JobProblem {
            path: String::new(),
            message: message.to_owned(),
            keyword: Some("type".to_owned()),
            schema_path: Some("#/type".into()),
            params: Some(r#"{"type":"object"}"#.into()),
            advice: ProblemAdvice::AsIs,
        }
    }

    fn plain_problem(path: &str, message: &str) -> JobProblem {
        JobProblem {
            path: path.to_owned(),
            message: message.to_owned(),
            keyword: None,
            schema_path: None,
            params: None,
            advice: ProblemAdvice::AsIs,
        }
    }

    #[test]
    fn schema_problems_are_an_ajv_array() {
        let error = ApiError::from(port::PortError::InvalidJob(vec![schema(
            "should be object",
        )]));
        assert_eq!(
            error.body(),
            json!({
                "code": "InvalidProtocolError",
                "message": "[{\"keyword\":\"type\",\"dataPath\":\"\",\"schemaPath\":\"#/type\",\
                            \"params\":{\"type\":\"object\"},\"message\":\"should be object\"}]",
                "errors": [{"path": "", "message": "should be object"}],
            })
        );
    }

    #[test]
    fn other_problems_are_sentences() {
        let error = ApiError::from(port::PortError::InvalidJob(vec![
            plain_problem("", "the YAML is broken at line 2, column 4"),
            plain_problem(".taskRoles.w.dockerImage", "no image named x"),
        ]));
        assert_eq!(
            error.to_string(),
            "the YAML is broken at line 2, column 4\n.taskRoles.w.dockerImage: no image named x"
        );
        assert_eq!(error.code().0, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn denials_of_changes_of_users() {
        use PeopleDenial as D;
        let name = || "x".to_owned();
        let changed = D::Changed {
            subject: name(),
            seen: 1,
            current: 2,
        };
        let invalid = D::Invalid {
            field: "email".to_owned(),
            problem: "too long".to_owned(),
        };
        for (denial, status, code) in [
            (D::NoUser(name()), 404, "NoUserError"),
            (D::UserExists(name()), 409, "ConflictUserError"),
            (D::NoGroup(name()), 404, "NoGroupError"),
            (D::GroupExists(name()), 409, "ConflictGroupError"),
            (D::NoVc(name()), 400, "NoVirtualClusterError"),
            (D::WrongPassword, 403, "ForbiddenUserError"),
            (D::Busy, 503, "TooManyLoginsError"),
            (D::AdminVcs(name()), 403, "ForbiddenUserError"),
            (D::RemoveAdmin(name()), 403, "RemoveAdminError"),
            (D::LastAdmin(name()), 403, "RemoveAdminError"),
            (D::GroupNeeded(name()), 403, "ForbiddenKeyError"),
            (changed, 412, "ConflictRevisionError"),
            (invalid, 400, "InvalidParametersError"),
        ] {
            let is_busy = denial == D::Busy;
            let is_changed = matches!(denial, D::Changed { .. });
            let error = ApiError::from(port::PortError::from(denial));
            assert_eq!(
                error.code(),
                (StatusCode::from_u16(status).unwrap(), Some(code))
            );
            assert_eq!(error.retry_s().is_some(), is_busy, "{error}");
            let current = error.body().get("currentRevision").cloned();
            assert_eq!(current, is_changed.then(|| json!(2)));
        }
    }
}
