/* SPDX-License-Identifier: Apache-2.0 */
/* base/clock.h on virtual time: the clocks of the machine whose process runs. */
#include "base/clock.h"

#include "tests/sim/world.h"

#include <string.h>

int64_t clock_boottime_offset_ns(void)
{
    return 0;
}

struct mono clock_mono_now(void)
{
    const struct world *w = world_get();
    return (struct mono){machine_boot_ns(w, w->current->machine)};
}

struct wall clock_wall_now(void)
{
    const struct world *w = world_get();
    return (struct wall){machine_wall_ns(w, w->current->machine)};
}

int clock_boot_id(char out_id[static CLOCK_BOOT_ID_BYTES], struct err *e)
{
    (void)e;
    memcpy(out_id, world_get()->current->machine->boot_id, CLOCK_BOOT_ID_BYTES);
    return 0;
}
