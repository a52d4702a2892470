use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::inventory::nvidia::sampler::GpuSampler;

/// For tests with a call that does not come back, and long enough for those that do.
const LIMIT: Duration = Duration::from_secs(3);

impl Machine {
    fn sampler(&self) -> GpuSampler {
        GpuSampler::with_limit(self.root.path(), Some(self.driver.library()), LIMIT)
    }

    /// Where the driver writes which calls it got.
    fn calls_file(&self) -> PathBuf {
        self.root.path().join("calls")
    }

    fn note_calls(&self, text: &str) {
        let line = format!("calls = {}\n", self.calls_file().display());
        self.driver.answer(&format!("{text}{line}")).unwrap();
    }

    /// How often a call came, written as `nvmlDeviceGetName 0`.
    fn count(&self, call: &str) -> usize {
        let calls = fs::read_to_string(self.calls_file()).unwrap_or_default();
        calls.lines().filter(|line| *line == call).count()
    }
}

fn gpus(sampler: &GpuSampler) -> Vec<GpuSample> {
    sampler.round().unwrap().unwrap().gpus
}

/// An H100 that tells everything.
fn h100(index: usize) -> String {
    let gpu = gpu_lines(
        index,
        "NVIDIA H100 80GB HBM3",
        3,
        81_559,
        "00000000:18:00.0",
    );
    let more = "memory.used = 40000\nmemory.reserved = 600\nutilization = 97 40\nencoder = 1\ndecoder = 2\n\
        temperature = 64\ntemperature.slowdown = 87\ntemperature.shutdown = 92\nfield.82 = 71\n\
        power = 650123\npower.limit = 700000\nenergy = 123456789012\nclock.sm = 1980\n\
        clock.memory = 2619\npstate = 0\nthrottle = 4\necc.corrected = 5\necc.uncorrected = 1\n\
        ecc.corrected.ever = 50\necc.uncorrected.ever = 10\nremapped = 2 3 1 0\nfield.29 = 4\n\
        field.30 = 6\nfield.31 = 1\nreplay = 9\npcie.gen = 4\npcie.gen.max = 5\npcie.width = 8\n\
        pcie.width.max = 16\nlinks = 3\nlink.0 = 0:5:0.0 1af110de\nlink.2 = 0:6:0.0 1af110de\nfield.38 = 11\n\
        field.45 = 12\nfield.52 = 13\nfield.59 = 14\nfield.138 = 1000\nfield.139 = 2000\nfield.230 = 4\n\
        processes = 4711:30000 815:-\nprocesses.graphics = 4711:20 99:7\n";
    let more = more.lines().map(|line| format!("gpu.{index}.{line}\n"));
    gpu + &more.collect::<String>()
}

#[test]
fn all_that_a_driver_tells_of_a_gpu_is_read() {
    let machine = Machine::new(&format!("devices = 1\n{}", h100(0)));
    let process = |pid, memory: Option<u64>| GpuProcess {
        pid,
        memory: memory.map(|mib| mib << 20),
    };
    let expect = GpuSample {
        identity: GpuIdentity {
            index: 0,
            uuid: "GPU-0".to_owned(),
            minor: 3,
            model: "NVIDIA H100 80GB HBM3".to_owned(),
            pci: Some("0000:18:00.0".to_owned()),
        },
        utilization: Some(97),
        memory_utilization: Some(40),
        encoder_utilization: Some(1),
        decoder_utilization: Some(2),
        memory: Some(GpuMemory {
            total: 81_559 << 20,
            used: 40_000 << 20,
            free: 40_959 << 20,
            reserved: Some(600 << 20),
        }),
        temperature: GpuTemperature {
            gpu: Some(64),
            memory: Some(71),
            slowdown: Some(87),
            shutdown: Some(92),
        },
        power: GpuPower {
            milliwatts: Some(650_123),
            limit_milliwatts: Some(700_000),
            energy_millijoules: Some(123_456_789_012),
        },
        sm_clock_mhz: Some(1980),
        memory_clock_mhz: Some(2619),
        performance_state: Some(0),
        throttle_reasons: Some(4),
        ecc: GpuEcc {
            corrected: Some(5),
            uncorrected: Some(1),
            corrected_ever: Some(50),
            uncorrected_ever: Some(10),
        },
        remapped_rows: Some(RemappedRows {
            correctable: 2,
            uncorrectable: 3,
            pending: true,
            failed: false,
        }),
        retired_pages: RetiredPages {
            single_bit: Some(4),
            double_bit: Some(6),
            pending: Some(true),
        },
        pcie: GpuPcie {
            replays: Some(9),
            generation: Some(4),
            generation_max: Some(5),
            width: Some(8),
            width_max: Some(16),
        },
        nvlink: GpuNvlink {
            active: Some(2),
            inactive: Some(1),
            crc_flit_errors: Some(11),
            crc_data_errors: Some(12),
            replay_errors: Some(13),
            recovery_errors: Some(14),
            sent_bytes: Some(1_024_000),
            received_bytes: Some(2_048_000),
        },
        recovery_action: Some(4),
        processes: Some(vec![
            process(99, Some(7)),
            process(815, None),
            process(4711, Some(30_000)),
        ]),
        activity: None,
        instances: None,
    };
    assert_eq!(gpus(&machine.sampler()), [expect]);
}

#[test]
fn what_an_old_driver_does_not_have_is_left_out() {
    let absent = "absent = nvmlDeviceGetMemoryInfo_v2 nvmlDeviceGetFieldValues nvmlDeviceGetRemappedRows \
                  nvmlDeviceGetComputeRunningProcesses_v3 nvmlDeviceGetGraphicsRunningProcesses_v3 \
                  nvmlDeviceGetTotalEnergyConsumption nvmlDeviceGetMigMode nvmlGpmQueryDeviceSupport \
                  nvmlGpmSampleAlloc nvmlGpmSampleGet nvmlGpmSampleFree nvmlGpmMetricsGet\n";
    let machine = Machine::new(&format!("devices = 1\n{}{absent}", h100(0)));
    let gpus = gpus(&machine.sampler());
    let [gpu] = &gpus[..] else { panic!("{gpus:?}") };
    let memory = gpu.memory.unwrap();
    // What the driver keeps for itself counts as used there.
    assert_eq!((memory.used >> 20, memory.reserved), (40_600, None));
    assert_eq!(
        (gpu.temperature.gpu, gpu.temperature.memory),
        (Some(64), None)
    );
    assert_eq!((gpu.remapped_rows, gpu.recovery_action), (None, None));
    assert_eq!(gpu.power.energy_millijoules, None);
    assert_eq!(gpu.processes, None);
    // A card that tells nothing but its name is a sample as well.
    let bare = Machine::new(&format!(
        "devices = 1\n{}",
        gpu_lines(0, "K20", 0, 1, "0:1:0.0")
    ));
    let found = bare.sampler().round().unwrap().unwrap().gpus;
    assert_eq!(
        (found[0].utilization, found[0].power),
        (None, GpuPower::default())
    );
    assert_eq!(found[0].processes, None);
}

#[test]
fn what_is_not_supported_is_not_asked_in_every_round() {
    let text = format!("devices = 1\n{}", h100(0).replace("gpu.0.power = ", "# "));
    let machine = Machine::new(&text);
    machine.note_calls(&text);
    let sampler = machine.sampler();
    for _ in 0..3 {
        assert_eq!(gpus(&sampler)[0].power.milliwatts, None);
    }
    assert_eq!(machine.count("nvmlDeviceGetPowerUsage 0"), 1);
    assert_eq!(machine.count("nvmlDeviceGetTemperature 0"), 3);
    assert_eq!(machine.count("nvmlInit_v2 -1"), 1, "the library stays open");
}

#[test]
fn a_pause_closes_the_library_until_it_ends() {
    let text = format!("devices = 1\n{}", h100(0));
    let machine = Machine::new(&text);
    machine.note_calls(&text);
    let sampler = machine.sampler();
    assert_eq!(gpus(&sampler).len(), 1);
    assert_eq!(machine.count("nvmlShutdown -1"), 0);
    let pause = sampler.pause().unwrap();
    assert_eq!(machine.count("nvmlShutdown -1"), 1);
    assert!(sampler.round().unwrap().is_none());
    let second = sampler.pause().unwrap();
    drop(pause);
    assert!(sampler.round().unwrap().is_none(), "one pause is left");
    assert_eq!(machine.count("nvmlInit_v2 -1"), 1);
    drop(second);
    assert_eq!(gpus(&sampler).len(), 1);
    assert_eq!(machine.count("nvmlInit_v2 -1"), 2);
    // The last clone of the sampler closes it as well.
    drop(sampler);
    while machine.count("nvmlShutdown -1") < 2 {
        std::thread::yield_now();
    }
}

#[test]
fn a_call_that_hangs_keeps_its_thread_and_nothing_else() {
    let text = format!("devices = 2\n{}{}", h100(0), h100(1));
    for (call, read, can_pause) in [
        ("nvmlInit_v2", None, false),
        ("nvmlDeviceGetTemperature.1", Some(1), false),
        ("nvmlDeviceGetName.0", Some(0), false),
    ] {
        let machine = Machine::new(&format!("{text}held.{call} = 1\n"));
        let sampler = machine.sampler();
        let first = sampler.round();
        let found = first.as_ref().ok().map(|round| round.as_ref().unwrap());
        assert_eq!(found.map(|round| round.gpus.len()), read, "{call}");
        if let Some(round) = found {
            assert!(round.hangs.is_some(), "{call}");
            assert_eq!(round.gpus.len() + round.silent.len(), 2, "{call}");
        }
        // Nothing waits for it any more.
        for _ in 0..1000 {
            let again = sampler.round().unwrap_err();
            assert!(again.unanswered().is_some(), "{call} {again}");
        }
        assert_eq!(sampler.pause().is_ok(), can_pause, "{call}");
        machine.driver.answer(&text).unwrap();
        let round = loop {
            if let Ok(Some(round)) = sampler.round() {
                break round;
            }
            std::thread::yield_now();
        };
        assert_eq!((round.gpus.len(), round.silent.len()), (2, 0), "{call}");
        assert!(round.hangs.is_none() && sampler.pause().is_ok(), "{call}");
    }
}

#[test]
fn a_gpu_that_is_lost_is_silent_and_the_library_is_opened_again_for_it() {
    let text = format!("devices = 2\n{}{}", h100(0), h100(1));
    for call in [
        "nvmlDeviceGetTemperature.1",
        "nvmlDeviceGetHandleByIndex_v2.1",
    ] {
        let machine = Machine::new(&format!("{text}error.{call} = 15\n"));
        let sampler = machine.sampler();
        let round = sampler.round().unwrap().unwrap();
        assert_eq!((round.gpus.len(), round.silent.len()), (1, 1), "{call}");
        assert_eq!(
            (round.gpus[0].identity.index, round.silent[0].index),
            (0, 1)
        );
        machine.driver.answer(&text).unwrap();
        let rounds: Vec<usize> = (0..10)
            .map(|_| sampler.round().unwrap().unwrap().gpus.len())
            .collect();
        assert_eq!(rounds.last(), Some(&2), "{call}");
    }
    // An error of one call alone loses one figure.
    let machine = Machine::new(&format!("{text}error.nvmlDeviceGetTemperature.1 = 999\n"));
    let found = gpus(&machine.sampler());
    let heat = found.iter().map(|gpu| gpu.temperature.gpu);
    assert_eq!(heat.collect::<Vec<_>>(), [Some(64), None]);
}

#[test]
fn gpus_that_come_and_go_are_seen() {
    let none = "# no driver\n";
    let machine = Machine::new(none);
    let sampler = machine.sampler();
    assert!(sampler.round().unwrap().is_none());
    for count in [1, 2, 1] {
        machine
            .driver
            .answer(&format!("devices = {count}\n{}{}", h100(0), h100(1)))
            .unwrap();
        assert_eq!(gpus(&sampler).len(), count);
    }
    machine.driver.answer(none).unwrap();
    assert!(sampler.round().unwrap().is_none());
    machine
        .driver
        .answer("devices = 1\nerror.nvmlInit_v2 = 18")
        .unwrap();
    let error = sampler.round().unwrap_err();
    assert!(error.unanswered().is_none(), "{error}");
    machine.driver.answer(none).unwrap();
    assert!(sampler.round().unwrap().is_none(), "it is asked again");
}

#[test]
fn activity_is_of_the_time_between_two_rounds() {
    let metrics = "gpu.0.gpm = 1\ngpu.0.gpm.1 = 99\ngpu.0.gpm.2 = 45.5\ngpu.0.gpm.5 = 30\ngpu.0.gpm.10 = 25\n\
                   gpu.0.gpm.20 = 2\n";
    let machine = Machine::new(&format!("devices = 1\n{}{metrics}", h100(0)));
    let sampler = machine.sampler();
    assert_eq!(gpus(&sampler)[0].activity, None);
    let expect = GpuActivity {
        engine: Some(0.99),
        sm: Some(0.455),
        tensor: Some(0.3),
        dram: Some(0.25),
        pcie_sent: Some(2_097_152.0),
        ..GpuActivity::default()
    };
    assert_eq!(gpus(&sampler)[0].activity, Some(expect));
    // Others have none.
    let machine = Machine::new(&format!("devices = 1\n{}", h100(0)));
    let sampler = machine.sampler();
    let _ = gpus(&sampler);
    assert_eq!(gpus(&sampler)[0].activity, None);
}

#[test]
fn instances_have_memory_of_their_own() {
    let text = format!("{}gpu.0.mig.1.memory.used = 5000\n", two_a100());
    let machine = Machine::new(&text);
    let sampler = machine.sampler();
    let found = gpus(&sampler);
    let instances = found[0].instances.as_ref().unwrap();
    let told = instances
        .iter()
        .map(|it| (&*it.uuid, it.gpu_instance, it.memory.unwrap().used >> 20));
    let expect = [
        ("MIG-3", 3, 0),
        ("MIG-4", 4, 5000),
        ("MIG-5", 5, 0),
        ("MIG-6", 6, 0),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expect);
    assert_eq!(found[1].instances, None);
    // They are looked for in each round.
    machine
        .driver
        .answer(&text.replace("gpu.0.mig = 1", "gpu.0.mig = 0"))
        .unwrap();
    assert_eq!(gpus(&sampler)[0].instances, None);
}
