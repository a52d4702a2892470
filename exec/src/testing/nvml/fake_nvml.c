/* NVIDIA's management library as far as this project calls it, with the answers of a text file.
 * The file is read anew at each call. It lies beside the library, with ".txt" after the library's
 * name, or where the variable MUSTER_FAKE_NVML says. See mod.rs beside this file for its lines. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SUCCESS = 0,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TEXT = 256,
    SLOTS = 64, /* instances of a GPU, and one */
    NO_SLOT = -1,
    P2P_NVLINK = 2,
    P2P_OK = 0,
    P2P_NOT_SUPPORTED = 5,
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct memory {
    unsigned long long total, free, used;
};

struct pci {
    char legacy_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
};

/* A handle is a number above 0: of the GPU, and of the instance on it if it is one. */
static void *handle(int gpu, int slot) { return (void *)(intptr_t)(gpu * SLOTS + slot + 2); }
static int gpu_of(const void *device) { return (int)((intptr_t)device - 1) / SLOTS; }
static int slot_of(const void *device) { return (int)((intptr_t)device - 1) % SLOTS - 1; }

static const char *file_name(void) {
    static _Thread_local char name[4096];
    const char *given = getenv("MUSTER_FAKE_NVML");
    Dl_info info;
    if (given)
        return given;
    if (!dladdr((void *)file_name, &info))
        return "";
    snprintf(name, sizeof name, "%s.txt", info.dli_fname);
    return name;
}

/* Copies what stands after "key = " on the key's last line. Returns whether there is one. */
static int find(const char *key, char *value) {
    char line[4096];
    int is_found = 0;
    FILE *file = fopen(file_name(), "r");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file)) {
        char *mid = strstr(line, " = ");
        if (!mid || line[0] == '#')
            continue;
        *mid = 0;
        if (strcmp(line, key) != 0)
            continue;
        mid[strcspn(mid + 3, "\n") + 3] = 0;
        snprintf(value, TEXT, "%s", mid + 3);
        is_found = 1;
    }
    fclose(file);
    return is_found;
}

static long number(const char *key, long other) {
    char value[TEXT];
    return find(key, value) ? strtol(value, NULL, 0) : other;
}

/* The key of a thing of a GPU, or of its instance. */
static void key_of(const void *device, const char *name, char *key) {
    if (slot_of(device) == NO_SLOT)
        snprintf(key, TEXT, "gpu.%d.%s", gpu_of(device), name);
    else
        snprintf(key, TEXT, "gpu.%d.mig.%d.%s", gpu_of(device), slot_of(device), name);
}

static int find_of(const void *device, const char *name, char *value) {
    char key[TEXT];
    key_of(device, name, key);
    return find(key, value);
}

static long number_of(const void *device, const char *name, long other) {
    char key[TEXT];
    key_of(device, name, key);
    return number(key, other);
}

/* Waits as long as the file says of a call, and returns the error that it says. */
static int begin(const char *call, int gpu) {
    char key[TEXT], one[TEXT];
    long wait_ms, error;
    snprintf(key, TEXT, "hang.%s", call);
    snprintf(one, TEXT, "hang.%s.%d", call, gpu);
    wait_ms = number(one, number(key, 0));
    if (wait_ms > 0) {
        struct timespec wait = {wait_ms / 1000, wait_ms % 1000 * 1000000};
        nanosleep(&wait, NULL);
    }
    snprintf(key, TEXT, "error.%s", call);
    snprintf(one, TEXT, "error.%s.%d", call, gpu);
    error = number(one, number(key, SUCCESS));
    return (int)error;
}

/* Starts a call on a device: leaves it if the file says so. */
#define BEGIN(device)                                                                              \
    do {                                                                                           \
        int error = begin(__func__, gpu_of(device));                                               \
        if (error != SUCCESS)                                                                      \
            return error;                                                                          \
    } while (0)

static int copy(const char *value, char *text, unsigned length) {
    if (strlen(value) >= length)
        return INSUFFICIENT_SIZE;
    strcpy(text, value);
    return SUCCESS;
}

static int text_of(const void *device, const char *name, char *text, unsigned length) {
    char value[TEXT];
    return find_of(device, name, value) ? copy(value, text, length) : NOT_SUPPORTED;
}

static int parse_pci(const char *value, struct pci *place) {
    unsigned function;
    memset(place, 0, sizeof *place);
    if (sscanf(value, "%x:%x:%x.%x %x", &place->domain, &place->bus, &place->device, &function,
               &place->device_id) < 4)
        return NOT_SUPPORTED;
    snprintf(place->id, sizeof place->id, "%08X:%02X:%02X.0", place->domain & 0xffffffff,
             place->bus & 0xff, place->device & 0xff);
    return SUCCESS;
}

int nvmlInit_v2(void) {
    char value[TEXT];
    int error = begin(__func__, -1);
    if (error != SUCCESS)
        return error;
    return find("devices", value) ? SUCCESS : DRIVER_NOT_LOADED;
}

int nvmlShutdown(void) { return SUCCESS; }

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    char value[TEXT];
    return find("driver", value) ? copy(value, text, length) : NOT_SUPPORTED;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    int error = begin(__func__, -1);
    *count = (unsigned)number("devices", 0);
    return error;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    int error = begin(__func__, (int)index);
    if (error != SUCCESS)
        return error;
    if ((long)index >= number("devices", 0))
        return INVALID_ARGUMENT;
    *device = handle((int)index, NO_SLOT);
    return SUCCESS;
}

int nvmlDeviceGetUUID(const void *device, char *text, unsigned length) {
    BEGIN(device);
    return text_of(device, "uuid", text, length);
}

int nvmlDeviceGetName(const void *device, char *text, unsigned length) {
    BEGIN(device);
    return text_of(device, "name", text, length);
}

int nvmlDeviceGetMinorNumber(const void *device, unsigned *minor) {
    long found = number_of(device, "minor", -1);
    BEGIN(device);
    *minor = (unsigned)found;
    return found < 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(const void *device, struct pci *place) {
    char value[TEXT];
    BEGIN(device);
    return find_of(device, "pci", value) ? parse_pci(value, place) : NOT_SUPPORTED;
}

int nvmlDeviceGetMemoryInfo_v2(const void *device, struct memory_v2 *memory) {
    long found = number_of(device, "memory", -1);
    BEGIN(device);
    memory->total = (unsigned long long)found << 20;
    return found < 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetMemoryInfo(const void *device, struct memory *memory) {
    long found = number_of(device, "memory", -1);
    BEGIN(device);
    memory->total = (unsigned long long)found << 20;
    return found < 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetMigMode(const void *device, unsigned *now, unsigned *pending) {
    long found = number_of(device, "mig", -1);
    BEGIN(device);
    *now = *pending = (unsigned)found;
    return found < 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(const void *device, unsigned *count) {
    BEGIN(device);
    *count = 7;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(const void *device, unsigned slot, void **instance) {
    char value[TEXT];
    BEGIN(device);
    *instance = handle(gpu_of(device), (int)slot);
    return find_of(*instance, "uuid", value) ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(const void *device, unsigned *id) {
    long found = number_of(device, "gi", -1);
    BEGIN(device);
    *id = (unsigned)found;
    return found < 0 ? NOT_FOUND : SUCCESS;
}

int nvmlDeviceGetComputeInstanceId(const void *device, unsigned *id) {
    long found = number_of(device, "ci", -1);
    BEGIN(device);
    *id = (unsigned)found;
    return found < 0 ? NOT_FOUND : SUCCESS;
}

int nvmlDeviceGetNvLinkState(const void *device, unsigned link, unsigned *is_active) {
    char name[TEXT], value[TEXT];
    BEGIN(device);
    if ((long)link >= number_of(device, "links", 0))
        return INVALID_ARGUMENT;
    snprintf(name, TEXT, "link.%u", link);
    *is_active = (unsigned)find_of(device, name, value);
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(const void *device, unsigned link, struct pci *place) {
    char name[TEXT], value[TEXT];
    BEGIN(device);
    snprintf(name, TEXT, "link.%u", link);
    return find_of(device, name, value) ? parse_pci(value, place) : INVALID_ARGUMENT;
}

int nvmlDeviceGetP2PStatus(const void *device, const void *other, int what, int *status) {
    char value[TEXT], *rest = value;
    BEGIN(device);
    if (what != P2P_NVLINK)
        return NOT_SUPPORTED;
    *status = P2P_NOT_SUPPORTED;
    if (!find_of(device, "nvlink", value))
        return SUCCESS;
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        if (*word && strtol(word, NULL, 10) == gpu_of(other))
            *status = P2P_OK;
    return SUCCESS;
}
