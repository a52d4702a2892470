/* NVIDIA's management library as far as the probe calls it: three GPUs. The second sits in
 * another slot than its index says, and nobody knows its place on the bus; the third has fallen
 * off the bus. */
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, GPU_IS_LOST = 15, COUNT = 3, LOST = 2 };

struct memory {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct pci {
    char legacy_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
};

static const char *const uuids[] = {"GPU-aaaa", "GPU-bbbb"};
static const unsigned minors[] = {0, 5};

static unsigned index_of(const void *device) {
    return (unsigned)((const char *)device - (const char *)uuids) - 1;
}

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = COUNT;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, const void **device) {
    if (index >= LOST)
        return index < COUNT ? GPU_IS_LOST : NOT_FOUND;
    *device = (const char *)uuids + index + 1;
    return SUCCESS;
}

int nvmlDeviceGetUUID(const void *device, char *text, unsigned length) {
    strncpy(text, uuids[index_of(device)], length);
    return SUCCESS;
}

int nvmlDeviceGetName(const void *device, char *text, unsigned length) {
    (void)device;
    strncpy(text, "Tesla V100-SXM2-16GB", length);
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(const void *device, unsigned *minor) {
    *minor = minors[index_of(device)];
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(const void *device, struct pci *place) {
    if (index_of(device) > 0)
        return NOT_SUPPORTED;
    place->bus = 0x1a;
    strcpy(place->id, "00000000:1A:00.0");
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(const void *device, struct memory *memory) {
    (void)device;
    memory->total = 16384ULL << 20;
    return SUCCESS;
}
