/* SPDX-License-Identifier: Apache-2.0 */
#include "dra-driver/dra/instance.h"

#include "base/mem.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

struct world {
    char dir[SCRATCH_BYTES];
    struct instance a;
    struct instance b;
    char dead[256]; /* "uid uid " */
    bool keeps;     /* what is dead */
};

static void up(struct world *w)
{
    scratch_make(w->dir);
    assert_int_equal(instance_init(&w->a, w->dir, "a-1", NULL), 0);
    assert_int_equal(instance_init(&w->b, w->dir, "b-2", NULL), 0);
    assert_int_equal(instance_begin(&w->a, NULL), 0);
}

static void down(struct world *w)
{
    instance_end(&w->a);
    instance_end(&w->b);
    scratch_remove(w->dir);
}

WORLD(up, down)

static bool on_dead(void *user, const char *uid)
{
    struct world *w = user;
    size_t used = strlen(w->dead);
    (void)snprintf(w->dead + used, sizeof(w->dead) - used, "%s ", uid);
    return !w->keeps;
}

TEST_IN(only_another_that_lives_and_is_registered_is_a_successor)
{
    assert_int_equal(instance_look(&w->a), INSTANCE_ALONE);
    assert_int_equal(instance_say_registered(&w->a, NULL), 0);
    assert_int_equal(instance_look(&w->a), INSTANCE_ALONE); /* that is itself */
    assert_int_equal(instance_begin(&w->b, NULL), 0);
    assert_int_equal(instance_look(&w->a), INSTANCE_BESIDE);
    assert_int_equal(instance_say_registered(&w->b, NULL), 0);
    assert_int_equal(instance_look(&w->a), INSTANCE_SUCCEEDED);
    file_lock_release(&w->b.lock); /* killed: the file stays */
    assert_int_equal(instance_look(&w->a), INSTANCE_ALONE);
    assert_int_equal(instance_begin(&w->b, NULL), 0); /* the same Pod, anew */
    assert_int_equal(instance_look(&w->a), INSTANCE_BESIDE);
}

TEST_IN(one_that_lives_keeps_its_uid_to_itself)
{
    struct instance again;
    assert_int_equal(instance_init(&again, w->dir, "a-1", NULL), 0);
    assert_int_equal(instance_begin(&again, NULL), ERR_CONFLICT);
    instance_end(&again);
    assert_int_equal(instance_say_registered(&w->a, NULL), 0); /* still there */
}

TEST_IN(the_dead_are_found_once_and_the_living_never)
{
    scratch_put(w->dir, "instance-x.lock", "registered");
    scratch_put(w->dir, "instance-.lock", "");
    scratch_put(w->dir, "driver.lock", "");
    assert_int_equal(instance_begin(&w->b, NULL), 0);
    w->keeps = true;
    instance_find_dead(&w->a, on_dead, w);
    assert_string_equal(w->dead, "x ");
    w->keeps = false;
    instance_find_dead(&w->a, on_dead, w);
    instance_find_dead(&w->a, on_dead, w);
    assert_string_equal(w->dead, "x x ");
    file_lock_release(&w->b.lock);
    instance_find_dead(&w->a, on_dead, w);
    assert_string_equal(w->dead, "x x b-2 ");
    assert_true(file_lock_is_ours(&w->a.lock));
    assert_true(scratch_run("test -e %s/driver.lock -a ! -e %s/instance-b-2.lock", w->dir, w->dir));
}

TEST_IN(a_socket_goes_only_if_nobody_listens_on_it)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/s.sock", w->dir);
    assert_true(instance_remove_socket(address.sun_path)); /* there is none */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_false(instance_remove_socket(address.sun_path));
    assert_int_equal(access(address.sun_path, F_OK), 0);
    assert_int_equal(close(fd), 0);
    assert_true(instance_remove_socket(address.sun_path));
    assert_int_not_equal(access(address.sun_path, F_OK), 0);
    scratch_put(w->dir, "s.sock", "no socket"); /* refused as one that nobody serves */
    assert_true(instance_remove_socket(address.sun_path));
}

TEST_IN(a_note_is_the_whole_file)
{
    assert_int_equal(instance_note(w->a.lock.fd, "/run/a longer path", NULL), 0);
    assert_int_equal(instance_note(w->a.lock.fd, "/run/r", NULL), 0);
    assert_true(instance_is_noted(w->a.lock.path, "/run/r"));
    assert_false(instance_is_noted(w->a.lock.path, "/run/"));
    assert_false(instance_is_noted("/nonexistent", "/run/r"));
    assert_false(instance_is_noted(w->a.lock.path, ""));
    assert_int_equal(instance_note(w->a.lock.fd, "", NULL), 0);
    assert_true(instance_is_noted(w->a.lock.path, ""));
}

TEST(a_uid_that_makes_no_file_name_is_refused)
{
    char uid[INSTANCE_UID_MAX + 2];
    struct instance i;
    memset(uid, 'u', sizeof(uid));
    uid[INSTANCE_UID_MAX + 1] = '\0';
    assert_int_equal(instance_init(&i, "/d", uid, NULL), ERR_LIMIT);
    uid[INSTANCE_UID_MAX] = '\0';
    assert_int_equal(instance_init(&i, "/d", uid, NULL), 0);
}
