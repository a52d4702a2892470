mod events;
mod looks;
mod replay;

use muster_model::health::{EventClass, Quarantine, Remedy};

use super::*;
use crate::health::kernel_log::{KernelFact, RecoveryChange};

const DAY_MS: u64 = 86_400_000;
/// When the machine was started.
const BOOT_MS: u64 = 1_700_000_000_000;
const GPU: &str = "0000:1a:00.0";
const OTHER: &str = "0000:1b:00.0";

/// A judge with a clock and what it has said.
pub(super) struct Bench {
    judge: HealthJudge,
    now_ms: u64,
    sequence: u64,
    said: Vec<HealthOutput>,
}

impl Bench {
    fn new() -> Self {
        Self::with("")
    }

    /// With an administrator's changes of the rules.
    fn with(overlay: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("etc/muster")).unwrap();
        let file = root.path().join(crate::health::rules::OVERLAY_FILE);
        std::fs::write(file, overlay).unwrap();
        let rules = HealthRules::read(root.path()).unwrap();
        let mut bench = Self {
            judge: HealthJudge::new(rules, HealthMemory::default()),
            now_ms: BOOT_MS,
            sequence: 0,
            said: Vec::new(),
        };
        bench.boot("first");
        let device = |pci: &str, number: u32| GrantedDevice {
            pci: pci.to_owned(),
            id: DeviceId(format!("GPU-{number}")),
            paths: vec![format!("/dev/nvidia{number}")],
        };
        bench.tell(HealthInput::Devices(vec![device(GPU, 0), device(OTHER, 1)]));
        bench
    }

    fn tell(&mut self, input: HealthInput) {
        self.judge.handle(self.now_ms, input, &mut self.said);
    }

    fn wait(&mut self, seconds: u64) {
        self.now_ms += seconds * 1000;
        self.tell(HealthInput::Tick);
    }

    fn boot(&mut self, id: &str) {
        let at_ms = self.now_ms;
        self.sequence = 0;
        self.tell(HealthInput::Boot(Boot {
            id: id.to_owned(),
            at_ms,
        }));
    }

    /// An event of the kernel's log on a GPU.
    fn log(&mut self, code: &str) {
        self.log_fact(KernelFact {
            subject: HealthSubject::at(GPU),
            ..fact(code)
        });
    }

    fn log_at(&mut self, code: &str, place: &str) {
        self.log_fact(KernelFact {
            subject: HealthSubject::at(GPU),
            place: Some(place.to_owned()),
            ..fact(code)
        });
    }

    fn recovery(&mut self, from: u32, to: u32) {
        self.log_fact(KernelFact {
            subject: HealthSubject::at(GPU),
            recovery: Some(RecoveryChange { from, to }),
            ..fact("xid 154")
        });
    }

    fn log_fact(&mut self, fact: KernelFact) {
        let event = self.event(fact);
        self.tell(HealthInput::Kernel(event));
    }

    fn event(&mut self, fact: KernelFact) -> KernelEvent {
        self.sequence += 1;
        KernelEvent {
            at_ms: self.now_ms,
            sequence: self.sequence,
            line: 0,
            fact,
            text: "the line".to_owned(),
        }
    }

    fn used_by(&mut self, user: &str) {
        self.tell(HealthInput::Users(vec![(GPU.to_owned(), user.to_owned())]));
    }

    fn look(&mut self, reading: GpuReading) {
        let pci = GPU.to_owned();
        self.tell(HealthInput::Gpu { pci, reading });
    }

    fn reset(&mut self) {
        self.tell(HealthInput::Reset {
            pci: GPU.to_owned(),
        });
    }

    fn mark(&mut self, mark: PersonMark) {
        let subject = HealthSubject::at(GPU);
        self.tell(HealthInput::Person { subject, mark });
    }

    /// What is not good, a line for each check.
    fn troubles(&self) -> Vec<String> {
        let checks = self.judge.checks().into_iter();
        let troubles = checks.filter(|check| check.state != HealthState::Good);
        troubles
            .map(|check| {
                let HealthCheck {
                    name,
                    subject,
                    state,
                    remedy,
                    ..
                } = &check;
                format!("{subject} {name} {state} {:?} {remedy:?}", check.effect())
            })
            .collect()
    }

    #[track_caller]
    fn check(&self, expect: &[&str]) {
        assert_eq!(self.troubles(), expect);
    }

    fn classes(&self) -> Vec<EventClass> {
        let events = self.said.iter().filter_map(|said| match said {
            HealthOutput::Event(event) => Some(event.class),
            HealthOutput::Changed(_) | HealthOutput::Cleared(_) => None,
        });
        events.collect()
    }
}

fn fact(code: &str) -> KernelFact {
    KernelFact {
        subject: HealthSubject::Machine,
        code: code.to_owned(),
        fatal: None,
        place: None,
        pid: None,
        process: None,
        recovery: None,
    }
}
