//! The certificate of REST: what is shown, and for how long it is good.

use std::net::IpAddr;

use muster_model::finding::{Finding, Grade};

use crate::certificate::RestCertificate;
use crate::certificate::pair::moment;

/// So many days before its end a certificate is to be renewed. Programs that renew do it some 30 days
/// before: what is left then is time to see that it did not work.
const DAYS_LEFT_MIN: i64 = 21;
const DAY_S: i64 = 24 * 60 * 60;

/// What is to be said of it; without one everybody is answered in clear.
pub(super) fn check(shown: Option<&RestCertificate>, listen: IpAddr, now_s: i64) -> Finding {
    let Some(shown) = shown else {
        let finding = Finding::ok("tls", "REST", "everybody is answered in clear");
        return match listen.is_loopback() {
            true => finding,
            false => finding.but(
                Grade::Warn,
                "passwords and tokens can be read on their way: set tls.enabled = true in agent.toml",
            ),
        };
    };
    let file = shown.file.display();
    let until = moment(shown.until_s);
    let kind = if shown.is_self_signed {
        ", signed by itself"
    } else {
        ""
    };
    let evidence = format!("{}{kind}, good until {until}", shown.fingerprint);
    if let Some(problem) = &shown.problem {
        let text = format!("{}; shown is {file}, {evidence}", problem.text);
        return Finding::ok("tls", "certificate", text).but(Grade::Fail, &problem.remedy);
    }
    let finding = Finding::ok("tls", file.to_string(), evidence);
    let days = (shown.until_s - now_s).div_euclid(DAY_S);
    match days < DAYS_LEFT_MIN {
        true => finding.but(
            Grade::Warn,
            format!(
                "it ends in {days} days: have it renewed; the agent takes the new one by itself"
            ),
        ),
        false => finding,
    }
}

#[cfg(test)]
mod tests {
    use muster_tls::Fingerprint;

    use super::*;
    use crate::certificate::CertificateProblem;

    fn graded(until_days: i64, problem: Option<CertificateProblem>) -> Finding {
        let shown = RestCertificate {
            file: "/tls/n1.crt".into(),
            fingerprint: Fingerprint([7; 32]),
            is_self_signed: false,
            until_s: until_days * DAY_S,
            problem,
        };
        check(Some(&shown), [0, 0, 0, 0].into(), 0)
    }

    #[test]
    fn the_end_is_told_three_weeks_before() {
        let well = graded(22, None);
        assert_eq!((well.grade, well.remedy.as_str()), (Grade::Ok, ""));
        assert!(well.evidence.contains("sha256:0707"), "{well:?}");
        assert!(well.evidence.contains("1970-01-23"), "{well:?}");
        let soon = graded(20, None);
        assert_eq!(soon.grade, Grade::Warn);
        assert!(soon.remedy.contains("20 days"), "{soon:?}");
        assert_eq!(soon.subject, "/tls/n1.crt");
    }

    #[test]
    fn a_broken_file_is_a_failure_with_its_remedy() {
        let broken = graded(
            300,
            Some(CertificateProblem {
                text: "/tls/n1.key cannot be read".to_owned(),
                remedy: "put it there".to_owned(),
            }),
        );
        assert_eq!(broken.grade, Grade::Fail);
        assert!(broken.evidence.contains("/tls/n1.key"), "{broken:?}");
        assert!(
            broken.evidence.contains("shown is /tls/n1.crt"),
            "{broken:?}"
        );
        assert_eq!(broken.remedy, "put it there");
    }

    #[test]
    fn no_certificate_is_well_on_loopback_alone() {
        let grade = |listen: [u8; 4]| check(None, listen.into(), 0).grade;
        assert_eq!(grade([127, 0, 0, 1]), Grade::Ok);
        assert_eq!(grade([0, 0, 0, 0]), Grade::Warn);
    }
}
