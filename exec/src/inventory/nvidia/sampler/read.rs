//! The calls that a reading of one GPU is made of.

use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, TemperatureSensor, TemperatureThreshold,
};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};

use super::super::ask;
use super::super::sample::{
    GpuEcc, GpuIdentity, GpuMemory, GpuNvlink, GpuPcie, GpuPower, GpuProcess, GpuSample,
    GpuTemperature, MigSample, RetiredPages,
};
use super::asked::AskedCalls;
use super::gpm::GpmWindow;
use super::raw::{self, FieldKey};

/// More links than any GPU has; the driver ends them sooner.
const LINKS_MAX: u32 = 64;
/// The driver counts data on links in these.
const LINK_UNIT: u64 = 1024;
/// States above this one stand for an unknown one.
const PERFORMANCE_STATE_MAX: u32 = 15;

/// A driver may know the memory of instances and not that of their card.
const MEMORY_OF_GPU: [&str; 2] = ["memory", "memory before 510"];
const MEMORY_OF_INSTANCE: [&str; 2] = ["memory of an instance", "memory of an instance before 510"];

/// A GPU that is read again and again.
#[derive(Debug)]
pub(super) struct SampledGpu<'nvml> {
    opened: Result<OpenedGpu<'nvml>, String>,
}

#[derive(Debug)]
struct OpenedGpu<'nvml> {
    device: Device<'nvml>,
    identity: GpuIdentity,
    /// Figures that do not change.
    slowdown: Option<u32>,
    shutdown: Option<u32>,
    generation_max: Option<u32>,
    width_max: Option<u32>,
    calls: AskedCalls,
    gpm: GpmWindow<'nvml>,
}

impl<'nvml> SampledGpu<'nvml> {
    /// A GPU that does not answer is one as well.
    pub(super) fn open(nvml: &'nvml Nvml, index: u32) -> Self {
        let opened = OpenedGpu::open(nvml, index);
        Self {
            opened: opened.map_err(|error| error.to_string()),
        }
    }

    /// One reading.
    ///
    /// # Errors
    /// Why the GPU does not answer.
    pub(super) fn sample(&mut self, nvml: &'nvml Nvml) -> Result<GpuSample, String> {
        let gpu = self.opened.as_mut().map_err(|reason| reason.clone())?;
        gpu.calls.next_round();
        let sample = gpu.read(nvml);
        match gpu.calls.lost() {
            Some(reason) => Err(reason.to_owned()),
            None => Ok(sample),
        }
    }
}

impl<'nvml> OpenedGpu<'nvml> {
    fn open(nvml: &'nvml Nvml, index: u32) -> Result<Self, NvmlError> {
        let device = nvml.device_by_index(index)?;
        let limit = |which| device.temperature_threshold(which).ok();
        Ok(Self {
            identity: GpuIdentity::from(&ask::gpu(index, &device)?),
            slowdown: limit(TemperatureThreshold::Slowdown),
            shutdown: limit(TemperatureThreshold::Shutdown),
            generation_max: device.max_pcie_link_gen().ok(),
            width_max: device.max_pcie_link_width().ok(),
            calls: AskedCalls::default(),
            gpm: GpmWindow::default(),
            device,
        })
    }

    fn read(&mut self, nvml: &'nvml Nvml) -> GpuSample {
        let mut sample = GpuSample {
            identity: self.identity.clone(),
            temperature: GpuTemperature {
                slowdown: self.slowdown,
                shutdown: self.shutdown,
                ..GpuTemperature::default()
            },
            pcie: GpuPcie {
                generation_max: self.generation_max,
                width_max: self.width_max,
                ..GpuPcie::default()
            },
            ..GpuSample::default()
        };
        let (calls, device) = (&mut self.calls, &self.device);
        load(calls, device, &mut sample);
        heat(calls, device, &mut sample);
        sample.ecc = ecc(calls, device);
        sample.remapped_rows = calls.ask("remapped rows", || raw::remapped_rows(device));
        bus(calls, device, &mut sample.pcie);
        links(calls, device, &mut sample.nvlink);
        fields(calls, device, &mut sample);
        sample.processes = processes(calls, device);
        sample.instances = instances(calls, device, &sample.identity.model);
        sample.activity = self.gpm.activity(calls, (nvml, device));
        sample
    }
}

fn load(calls: &mut AskedCalls, device: &Device<'_>, sample: &mut GpuSample) {
    let rates = calls.ask("utilization", || device.utilization_rates());
    sample.utilization = rates.as_ref().map(|rates| rates.gpu);
    sample.memory_utilization = rates.map(|rates| rates.memory);
    let encoder = calls.ask("encoder", || device.encoder_utilization());
    sample.encoder_utilization = encoder.map(|info| info.utilization);
    let decoder = calls.ask("decoder", || device.decoder_utilization());
    sample.decoder_utilization = decoder.map(|info| info.utilization);
    sample.memory = memory(calls, device, MEMORY_OF_GPU);
    sample.sm_clock_mhz = calls.ask("SM clock", || device.clock_info(Clock::SM));
    sample.memory_clock_mhz = calls.ask("memory clock", || device.clock_info(Clock::Memory));
    let state = calls.ask("performance state", || device.performance_state());
    sample.performance_state = state
        .map(|state| state.as_c())
        .filter(|state| *state <= PERFORMANCE_STATE_MAX);
    let reasons = calls.ask("throttle reasons", || device.current_throttle_reasons());
    sample.throttle_reasons = reasons.map(|reasons| reasons.bits());
}

fn heat(calls: &mut AskedCalls, device: &Device<'_>, sample: &mut GpuSample) {
    sample.temperature.gpu =
        calls.ask("temperature", || device.temperature(TemperatureSensor::Gpu));
    sample.power = GpuPower {
        milliwatts: calls.ask("power", || device.power_usage()),
        limit_milliwatts: calls.ask("power limit", || device.enforced_power_limit()),
        energy_millijoules: calls.ask("energy", || device.total_energy_consumption()),
    };
}

/// Memory of a GPU or an instance. The names are of the newer call and the older one.
fn memory(
    calls: &mut AskedCalls,
    device: &Device<'_>,
    [newer, older]: [&'static str; 2],
) -> Option<GpuMemory> {
    let newer = calls.ask(newer, || device.memory_info());
    let newer = newer.map(|memory| GpuMemory {
        total: memory.total,
        used: memory.used,
        free: memory.free,
        reserved: Some(memory.reserved),
    });
    // Drivers up to 470 have the older call only.
    newer.or_else(|| calls.ask(older, || raw::memory(device)))
}

fn ecc(calls: &mut AskedCalls, device: &Device<'_>) -> GpuEcc {
    use EccCounter::{Aggregate, Volatile};
    use MemoryError::{Corrected, Uncorrected};
    let mut count =
        |name, error, counter| calls.ask(name, || device.total_ecc_errors(error, counter));
    GpuEcc {
        corrected: count("corrected errors", Corrected, Volatile),
        uncorrected: count("uncorrected errors", Uncorrected, Volatile),
        corrected_ever: count("corrected errors ever", Corrected, Aggregate),
        uncorrected_ever: count("uncorrected errors ever", Uncorrected, Aggregate),
    }
}

fn bus(calls: &mut AskedCalls, device: &Device<'_>, pcie: &mut GpuPcie) {
    let replays = calls.ask("PCIe replays", || device.pcie_replay_counter());
    pcie.replays = replays.map(u64::from);
    pcie.generation = calls.ask("PCIe generation", || device.current_pcie_link_gen());
    pcie.width = calls.ask("PCIe width", || device.current_pcie_link_width());
}

fn links(calls: &mut AskedCalls, device: &Device<'_>, nvlink: &mut GpuNvlink) {
    let Some((active, inactive)) = calls.ask("NVLink", || link_states(device)) else {
        return;
    };
    (nvlink.active, nvlink.inactive) = (Some(active), Some(inactive));
}

/// How many links carry data, and how many do not. The driver refuses to tell of the one after the last one.
fn link_states(device: &Device<'_>) -> Result<(u32, u32), NvmlError> {
    let (mut active, mut inactive) = (0, 0);
    for link in 0..LINKS_MAX {
        match device.link_wrapper_for(link).is_active() {
            Ok(true) => active += 1,
            Ok(false) => inactive += 1,
            Err(error) if link == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok((active, inactive))
}

/// Figures that have no call of their own.
fn fields(calls: &mut AskedCalls, device: &Device<'_>, sample: &mut GpuSample) {
    const KEYS: [FieldKey; 11] = [
        FieldKey::MEMORY_TEMPERATURE,
        FieldKey::RETIRED_SINGLE,
        FieldKey::RETIRED_DOUBLE,
        FieldKey::RETIRED_PENDING,
        FieldKey::LINK_CRC_FLIT,
        FieldKey::LINK_CRC_DATA,
        FieldKey::LINK_REPLAY,
        FieldKey::LINK_RECOVERY,
        FieldKey::LINK_SENT,
        FieldKey::LINK_RECEIVED,
        FieldKey::RECOVERY_ACTION,
    ];
    let values = calls.ask("fields", || raw::fields(device, &KEYS));
    let values = values.unwrap_or([None; KEYS.len()]);
    let [
        heat,
        single,
        double,
        pending,
        flit,
        data,
        replay,
        recovery,
        sent,
        received,
        action,
    ] = values;
    // GPUs without a sensor there tell 0.
    sample.temperature.memory = heat.filter(|heat| *heat > 0).and_then(small);
    sample.retired_pages = RetiredPages {
        single_bit: single,
        double_bit: double,
        pending: pending.map(|pending| pending != 0),
    };
    sample.nvlink = GpuNvlink {
        crc_flit_errors: flit,
        crc_data_errors: data,
        replay_errors: replay,
        recovery_errors: recovery,
        sent_bytes: sent.map(|units| units.saturating_mul(LINK_UNIT)),
        received_bytes: received.map(|units| units.saturating_mul(LINK_UNIT)),
        ..sample.nvlink
    };
    sample.recovery_action = action.and_then(small);
}

fn small(number: u64) -> Option<u32> {
    u32::try_from(number).ok()
}

/// Those that compute, and those that draw. A process that does both is one.
fn processes(calls: &mut AskedCalls, device: &Device<'_>) -> Option<Vec<GpuProcess>> {
    let compute = calls.ask("processes", || device.running_compute_processes());
    let drawing = calls.ask("drawing processes", || device.running_graphics_processes());
    if compute.is_none() && drawing.is_none() {
        return None;
    }
    let all = compute.into_iter().chain(drawing).flatten();
    let mut all: Vec<GpuProcess> = all.map(|process| gpu_process(&process)).collect();
    all.sort_by_key(|process| (process.pid, std::cmp::Reverse(process.memory)));
    all.dedup_by_key(|process| process.pid);
    Some(all)
}

fn gpu_process(process: &ProcessInfo) -> GpuProcess {
    GpuProcess {
        pid: process.pid,
        memory: match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        },
    }
}

/// Instances change while the GPU stays, so they are looked for each time.
fn instances(calls: &mut AskedCalls, device: &Device<'_>, model: &str) -> Option<Vec<MigSample>> {
    let mode = calls.ask("MIG mode", || device.mig_mode())?;
    if mode.current != 1 {
        return None;
    }
    let parts = calls.ask("MIG instances", || ask::parts(device))?;
    let mut found = Vec::new();
    for part in parts {
        if let Some(of) = calls.ask("a MIG instance", || ask::instance(&part, model)) {
            found.push(MigSample {
                uuid: of.uuid,
                gpu_instance: of.gpu_instance,
                compute_instance: of.compute_instance,
                model: of.model,
                memory: memory(calls, &part, MEMORY_OF_INSTANCE),
            });
        }
    }
    Some(found)
}
