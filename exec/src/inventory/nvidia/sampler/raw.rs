//! Calls that the wrapper does not have, or has without what is needed.
#![allow(
    unsafe_code,
    reason = "each call writes to a place of ours, of the type that the library's header names"
)]

use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::sys_exports::field_id as id;
use nvml_wrapper_sys::bindings as ffi;

use super::super::sample::{GpuMemory, RemappedRows};

/// A figure of the library's table of fields. Those from 251 on have other numbers in drivers before 580.82, and are
/// not used.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldKey {
    field: u32,
    /// Of what. For links, the sum of all.
    scope: u32,
}

impl FieldKey {
    pub(super) const MEMORY_TEMPERATURE: Self = Self::whole(id::NVML_FI_DEV_MEMORY_TEMP);
    pub(super) const RETIRED_SINGLE: Self = Self::whole(id::NVML_FI_DEV_RETIRED_SBE);
    pub(super) const RETIRED_DOUBLE: Self = Self::whole(id::NVML_FI_DEV_RETIRED_DBE);
    pub(super) const RETIRED_PENDING: Self = Self::whole(id::NVML_FI_DEV_RETIRED_PENDING);
    pub(super) const LINK_CRC_FLIT: Self =
        Self::whole(id::NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL);
    pub(super) const LINK_CRC_DATA: Self =
        Self::whole(id::NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL);
    pub(super) const LINK_REPLAY: Self =
        Self::whole(id::NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL);
    pub(super) const LINK_RECOVERY: Self =
        Self::whole(id::NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL);
    pub(super) const LINK_SENT: Self = Self::links(id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX);
    pub(super) const LINK_RECEIVED: Self = Self::links(id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX);
    pub(super) const RECOVERY_ACTION: Self = Self::whole(id::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION);

    const fn whole(field: u32) -> Self {
        Self { field, scope: 0 }
    }

    const fn links(field: u32) -> Self {
        Self {
            field,
            scope: u32::MAX,
        }
    }
}

/// The figures of these keys, in their order.
pub(super) fn fields<const N: usize>(
    device: &Device<'_>,
    keys: &[FieldKey; N],
) -> Result<[Option<u64>; N], NvmlError> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetFieldValues.as_ref())?;
    let mut values = keys.map(|key| ffi::nvmlFieldValue_t {
        fieldId: key.field,
        scopeId: key.scope,
        timestamp: 0,
        latencyUsec: 0,
        valueType: 0,
        nvmlReturn: 0,
        value: ffi::nvmlValue_t { ullVal: 0 },
    });
    let count = i32::try_from(N).unwrap_or(0);
    // SAFETY: the handle is of this library, and there are `count` values.
    nvml_try(unsafe { call(device.handle(), count, values.as_mut_ptr()) })?;
    Ok(values.map(|value| match nvml_try(value.nvmlReturn) {
        Ok(()) => whole(&value),
        Err(_) => None,
    }))
}

/// A value that is a whole number of 0 or more.
fn whole(value: &ffi::nvmlFieldValue_t) -> Option<u64> {
    // SAFETY: all members are plain numbers, for which any bits are a value, and the type says which one is set.
    unsafe {
        match value.valueType {
            ffi::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => {
                Some(u64::from(value.value.uiVal))
            }
            ffi::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG
            | ffi::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => {
                Some(value.value.ullVal)
            }
            ffi::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_LONG_LONG => {
                u64::try_from(value.value.sllVal).ok()
            }
            ffi::nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_INT => {
                u64::try_from(value.value.siVal).ok()
            }
            ffi::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_SHORT => {
                Some(u64::from(value.value.usVal))
            }
            _ => None,
        }
    }
}

pub(super) fn remapped_rows(device: &Device<'_>) -> Result<RemappedRows, NvmlError> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetRemappedRows.as_ref())?;
    let (mut correctable, mut uncorrectable, mut pending, mut failed) = (0, 0, 0, 0);
    // SAFETY: the handle is of this library, and the four numbers outlive the call.
    nvml_try(unsafe {
        call(
            device.handle(),
            &raw mut correctable,
            &raw mut uncorrectable,
            &raw mut pending,
            &raw mut failed,
        )
    })?;
    Ok(RemappedRows {
        correctable,
        uncorrectable,
        pending: pending != 0,
        failed: failed != 0,
    })
}

/// By the call of drivers up to 470, which count what the driver keeps for itself as used.
pub(super) fn memory(device: &Device<'_>) -> Result<GpuMemory, NvmlError> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref())?;
    let mut memory = ffi::nvmlMemory_t {
        total: 0,
        free: 0,
        used: 0,
    };
    // SAFETY: the handle is of this library, and `memory` outlives the call.
    nvml_try(unsafe { call(device.handle(), &raw mut memory) })?;
    Ok(GpuMemory {
        total: memory.total,
        used: memory.used,
        free: memory.free,
        reserved: None,
    })
}
