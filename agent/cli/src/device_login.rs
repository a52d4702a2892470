//! `muster login` by a code that is typed into a browser on any device (RFC 8628).

use std::time::Duration;

use muster_model::id::UserName;
use tokio::time::{Instant, sleep_until};

use super::api::{Api, BegunDeviceLogin, DeviceLoginAnswer, DeviceLoginWait};
use super::console::{Console, printable};
use super::error::CliError;
use super::patience::Patience;
use super::signals::{Signals, interrupted_by};
use super::spinner::Spinner;
use super::status::CliStatus;

/// How often the agent is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct PollPace {
    /// At least so long from one question to the next, whatever the provider says.
    pub(super) least: Duration,
    /// So much longer each time the provider finds it too often.
    pub(super) more: Duration,
}

/// RFC 8628, 3.5, on what `slow_down` means.
pub(super) const PACE: PollPace = PollPace {
    least: Duration::from_secs(1),
    more: Duration::from_secs(5),
};

/// How a login ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeviceLoginEnd {
    /// Who the person is, and their token.
    LoggedIn(UserName, String),
    /// A signal ended it.
    Interrupted(CliStatus),
}

/// Has a person log in on any device, and waits for it.
pub(super) async fn log_in(
    api: &Api,
    token_name: &str,
    console: &Console,
) -> Result<DeviceLoginEnd, CliError> {
    let begun = api.begin_device_login(token_name).await?;
    let _ = console.err(printable(&instructions(&begun)));
    wait(api, &begun, (PACE, Signals::new()?), console).await
}

/// What the person has to do.
fn instructions(begun: &BegunDeviceLogin) -> String {
    let BegunDeviceLogin {
        user_code,
        verification_uri,
        ..
    } = begun;
    let minutes = begun.expires_in_seconds.div_ceil(60);
    let complete = begun.verification_uri_complete.as_ref();
    let shortcut = complete.map(|place| {
        format!(
            "\nOr open this address, and check that the page shows the same code:\n\n    {place}\n"
        )
    });
    format!(
        "Open this address in a browser, on this or any other device, and enter the code:\n\n    \
         {verification_uri}\n    {user_code}\n{}\nThe code is good for {minutes} min. Waiting until you \
         have logged in; Ctrl-C ends it.\n",
        shortcut.unwrap_or_default(),
    )
}

/// Asks until the person has logged in, has refused, or has taken too long.
pub(super) async fn wait(
    api: &Api,
    begun: &BegunDeviceLogin,
    (pace, mut signals): (PollPace, Signals),
    console: &Console,
) -> Result<DeviceLoginEnd, CliError> {
    let end = Instant::now() + Duration::from_secs(begun.expires_in_seconds);
    let mut interval = Duration::from_secs(begun.interval_seconds).max(pace.least);
    let mut patience = Patience::default();
    let spinner = Spinner::new(waiting(end));
    loop {
        let next = Instant::now() + interval;
        if next >= end {
            return Err(expired(begun));
        }
        tokio::select! {
            number = signals.next() => {
                spinner.clear();
                console.note(interrupted(begun));
                return Ok(DeviceLoginEnd::Interrupted(interrupted_by(number)));
            }
            () = sleep_until(next) => {}
        }
        spinner.message(waiting(end));
        let answer = match api.poll_device_login(begun).await {
            Err(error) if error.is_too_often() => None,
            answer => match patience.bear(answer).await? {
                Some(answer) => Some(answer),
                None => continue,
            },
        };
        match answer {
            Some(DeviceLoginAnswer::LoggedIn { user, token }) => {
                return Ok(DeviceLoginEnd::LoggedIn(user, token));
            }
            Some(DeviceLoginAnswer::Waiting {
                status: DeviceLoginWait::Pending,
            }) => {}
            _ => interval += pace.more,
        }
    }
}

fn waiting(end: Instant) -> String {
    let left = end.saturating_duration_since(Instant::now()).as_secs();
    format!(
        "waiting until you have logged in, {}:{:02} left",
        left / 60,
        left % 60
    )
}

fn interrupted(begun: &BegunDeviceLogin) -> String {
    format!(
        "not logged in; the code {} is of no use any more. `muster login URL` begins again",
        begun.user_code
    )
}

fn expired(begun: &BegunDeviceLogin) -> CliError {
    CliError::Failed {
        what: "cannot log in".to_owned(),
        message: format!(
            "the code {} has expired before it was used; `muster login URL` gives another one",
            begun.user_code
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::sync::mpsc::{self, Sender};

    use super::*;
    use crate::endpoint::EndpointArguments;
    use crate::stub::{AgentStub, StubAnswer};

    const POLL: &str = "POST /api/muster/v1/authn/device/token";
    const FAST: PollPace = PollPace {
        least: Duration::from_millis(10),
        more: Duration::from_millis(400),
    };

    fn begun(life_s: u64, complete: Option<&str>) -> BegunDeviceLogin {
        let begun = json!({
            "userCode": "WDJB-MJHT",
            "verificationUri": "https://id.example/device",
            "verificationUriComplete": complete,
            "intervalSeconds": 0,
            "expiresInSeconds": life_s,
            "handle": "sealed",
        });
        serde_json::from_value(begun).unwrap()
    }

    fn waits(status: &str) -> StubAnswer {
        StubAnswer {
            status: 202,
            ..StubAnswer::json(json!({ "status": status }))
        }
    }

    fn let_in() -> StubAnswer {
        StubAnswer::json(json!({"user": "ada", "token": "t", "admin": false}))
    }

    fn silence() -> (Sender<u8>, Signals) {
        let (sender, received) = mpsc::channel(1);
        (sender, Signals(received))
    }

    /// How the wait ends, how long it took, and what was told.
    async fn ends(
        answers: impl IntoIterator<Item = StubAnswer>,
        life_s: u64,
    ) -> (Result<DeviceLoginEnd, CliError>, Duration, AgentStub) {
        let stub = AgentStub::start();
        stub.answer(POLL, answers);
        let api = Api::new(&EndpointArguments::at_socket(stub.socket()), None).unwrap();
        let (console, ..) = Console::captured();
        let started = Instant::now();
        let (_sender, signals) = silence();
        let end = wait(&api, &begun(life_s, None), (FAST, signals), &console).await;
        (end, started.elapsed(), stub)
    }

    #[tokio::test]
    async fn the_agent_is_asked_until_the_person_has_logged_in() {
        let pending = || waits("pending");
        let (end, took, stub) = ends([pending(), pending(), let_in()], 600).await;
        let ada = DeviceLoginEnd::LoggedIn("ada".parse().unwrap(), "t".to_owned());
        assert_eq!(end.unwrap(), ada);
        assert!(took < FAST.more * 3, "it gets slower: {took:?}");
        let asked = stub.asked();
        assert_eq!(asked.len(), 3);
        let body: Value = serde_json::from_str(&asked[0].body).unwrap();
        assert_eq!(body, json!({"handle": "sealed"}));
    }

    #[tokio::test]
    async fn questions_come_slower_where_the_provider_or_the_agent_asks_for_it() {
        let too_often = StubAnswer::refusal(429, "", "Too many requests, please try again later.");
        for slower in [waits("slowDown"), too_often] {
            let (end, took, _) = ends([slower, waits("pending"), let_in()], 600).await;
            assert!(matches!(end, Ok(DeviceLoginEnd::LoggedIn(..))), "{end:?}");
            assert!(took >= FAST.more * 2, "the pace stays: {took:?}");
        }
    }

    #[tokio::test]
    async fn an_agent_that_restarts_is_borne() {
        let down = StubAnswer::refusal(503, "UnknownError", "no leader");
        let (end, ..) = ends([down, let_in()], 600).await;
        assert!(matches!(end, Ok(DeviceLoginEnd::LoggedIn(..))), "{end:?}");
    }

    #[tokio::test]
    async fn refusals_and_codes_that_expire_say_what_to_do() {
        for (code, status, told) in [
            ("LoginDeniedError", 403, "did not refuse it yourself"),
            ("LoginExpiredError", 400, "use the new code in time"),
            ("LoginHandleError", 400, "use the new code in time"),
            ("IdentityProviderError", 401, "ask an admin of the cluster"),
        ] {
            let refusal = StubAnswer::refusal(status, code, "no");
            let (end, _, stub) = ends([waits("pending"), refusal], 600).await;
            let error = end.unwrap_err();
            assert_eq!(error.status(), CliStatus::Refused);
            let hint = error.hint().unwrap_or_default().into_owned();
            assert!(hint.contains(told), "{code}: {hint}");
            assert_eq!(stub.asked().len(), 2, "{code}");
        }
        let (end, took, stub) = ends([waits("pending")], 1).await;
        let error = end.unwrap_err();
        assert_eq!(error.status(), CliStatus::Refused);
        assert!(
            error.to_string().contains("WDJB-MJHT has expired"),
            "{error}"
        );
        assert!(took < Duration::from_secs(2) && stub.asked().len() > 1);
    }

    #[tokio::test]
    async fn a_signal_ends_the_wait() {
        let stub = AgentStub::start();
        stub.answer(POLL, [waits("pending")]);
        let api = Api::new(&EndpointArguments::at_socket(stub.socket()), None).unwrap();
        let (console, _, err) = Console::captured();
        let (sender, signals) = silence();
        sender.send(2).await.unwrap();
        let end = wait(&api, &begun(600, None), (FAST, signals), &console).await;
        assert_eq!(
            end.unwrap(),
            DeviceLoginEnd::Interrupted(CliStatus::Task(130))
        );
        assert!(
            err.text().contains("`muster login URL` begins again"),
            "{}",
            err.text()
        );
    }

    #[test]
    fn the_person_is_shown_address_and_code() {
        let plain = instructions(&begun(601, None));
        let lines = "\n    https://id.example/device\n    WDJB-MJHT\n";
        assert!(
            plain.contains(lines) && plain.contains("for 11 min"),
            "{plain}"
        );
        assert!(!plain.contains("the same code"), "{plain}");
        let complete = "https://id.example/device?c=WDJB-MJHT";
        let shown = instructions(&begun(600, Some(complete)));
        assert!(
            shown.contains(complete) && shown.contains("the same code"),
            "{shown}"
        );
    }
}
