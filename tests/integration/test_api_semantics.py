# SPDX-License-Identifier: Apache-2.0
"""What our agents rely on in the API server. Run against both targets, these cases hold the
stand-in to the real server's behaviour."""

import copy
import json

import pytest
from dpu_testing.kube import ApiError, Kube, micro_time
from dpu_testing.wait import until


def lease_body(name="a", **spec):
    head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    return {**head, "metadata": {"name": name}, "spec": spec}


def refused(call, *args):
    with pytest.raises(ApiError) as caught:
        call(*args)
    return caught.value


def test_create_answers_an_unknown_namespace_with_404_and_what_exists_with_409(target):
    path = "/apis/coordination.k8s.io/v1/namespaces/no-such-namespace/leases"
    error = refused(target.admin.create, path, lease_body())
    assert (error.code, error.reason) == (404, "NotFound")
    assert 'namespaces "no-such-namespace" not found' in error.message
    target.admin.create(target.leases_path(), lease_body())
    error = refused(target.admin.create, target.leases_path(), lease_body())
    assert (error.code, error.reason) == (409, "AlreadyExists")


def test_update_needs_the_current_resource_version(target):
    path = target.leases_path() + "/a"
    first = target.admin.create(target.leases_path(), lease_body())
    second = target.admin.update(path, {**first, "spec": {"leaseDurationSeconds": 7}})
    assert second["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]

    error = refused(target.admin.update, path, first)
    assert (error.code, error.reason) == (409, "Conflict")
    assert "the object has been modified" in error.message

    bare = copy.deepcopy(second)
    del bare["metadata"]["resourceVersion"]
    error = refused(target.admin.update, path, bare)
    assert error.code == 422
    assert "must be specified for an update" in error.message


def test_update_that_changes_nothing_keeps_the_resource_version(target):
    path = target.leases_path() + "/a"
    first = target.admin.create(target.leases_path(), lease_body(leaseDurationSeconds=7))
    again = target.admin.update(path, first)
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_update_of_a_missing_lease_creates_it_unless_it_names_a_uid(target):
    path = target.leases_path() + "/a"
    made = target.admin.create(target.leases_path(), lease_body())
    target.admin.delete(path)
    error = refused(target.admin.update, path, made)
    assert (error.code, error.reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition" in error.message

    del made["metadata"]["uid"]
    code, again = target.admin.request("PUT", path, made)
    assert code == 201
    assert again["kind"] == "Lease"


def test_what_may_not_change_does_not(target):
    path = target.leases_path() + "/a"
    made = target.admin.create(target.leases_path(), lease_body())
    changed = copy.deepcopy(made)
    changed["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z"
    answer = target.admin.update(path, changed)
    assert answer["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    other = "11111111-2222-3333-4444-555555555555"
    error = refused(target.admin.patch, path, {"metadata": {"uid": other}})
    assert error.code == 422
    assert "field is immutable" in error.message
    changed["metadata"]["uid"] = other
    error = refused(target.admin.update, path, changed)
    assert (error.code, error.reason) == (409, "Conflict")


def test_a_lease_without_a_legal_duration_or_stamp_is_refused(target):
    without_fraction = "2026-01-01T00:00:00Z"
    body = lease_body(leaseDurationSeconds=0)
    assert refused(target.admin.create, target.leases_path(), body).code == 422
    body = lease_body(renewTime=without_fraction)
    assert refused(target.admin.create, target.leases_path(), body).code == 400
    target.admin.create(target.leases_path(), lease_body())
    patch = {"spec": {"renewTime": without_fraction}}
    assert refused(target.admin.patch, target.leases_path() + "/a", patch).code == 422


def test_merge_patch_removes_with_null_and_misses_with_404(target):
    path = target.leases_path() + "/a"
    error = refused(target.admin.patch, path, {"spec": {"holderIdentity": "x"}})
    assert error.code == 404
    target.admin.create(target.leases_path(), lease_body(leaseDurationSeconds=7))
    patched = target.admin.patch(
        path, {"metadata": {"labels": {"a": "b"}}, "spec": {"leaseDurationSeconds": None}}
    )
    assert patched["metadata"]["labels"] == {"a": "b"}
    assert "leaseDurationSeconds" not in patched["spec"]
    stale = {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "x"}}
    assert refused(target.admin.patch, path, stale).code == 409


def test_list_with_a_name_selector_shows_one_and_a_version_to_watch_from(target):
    for name in ("a", "b"):
        target.admin.create(target.leases_path(), lease_body(name))
    answer = target.admin.get(target.leases_path() + "?fieldSelector=metadata.name%3Db")
    assert answer["kind"] == "LeaseList"
    assert [item["metadata"]["name"] for item in answer["items"]] == ["b"]
    assert answer["metadata"]["resourceVersion"].isdigit()
    empty = target.admin.get(target.leases_path() + "?fieldSelector=metadata.name%3Dnone")
    assert empty["items"] == []
    assert empty["metadata"]["resourceVersion"].isdigit()


def test_a_wrong_media_type_is_refused(target):
    code, answer = target.admin.request("POST", target.leases_path(), "x", "text/plain")
    assert code == 415, answer


class Stream:
    """A watch, read line by line."""

    def __init__(self, target, query):
        self.connection = target.admin.connect(timeout_s=20)
        headers = {"Authorization": f"Bearer {target.admin.token}"} if target.admin.token else {}
        self.connection.request("GET", f"{target.leases_path()}?watch=true&{query}", headers=headers)
        self.answer = self.connection.getresponse()

    def next(self):
        """The next event, or None at an orderly end."""
        line = self.answer.readline()
        return json.loads(line) if line else None

    def close(self):
        self.connection.close()


def test_watch_resumes_ends_in_time_and_says_goodbye_with_a_bookmark(target):
    start = target.admin.get(target.leases_path())["metadata"]["resourceVersion"]
    made = target.admin.create(target.leases_path(), lease_body(renewTime=micro_time()))
    target.admin.delete(target.leases_path() + "/a")
    query = "allowWatchBookmarks=true&timeoutSeconds=1&fieldSelector=metadata.name%3Da"
    stream = Stream(target, f"resourceVersion={start}&{query}")
    assert stream.answer.status == 200
    assert stream.answer.getheader("Content-Type").startswith("application/json")
    first, second = stream.next(), stream.next()
    assert (first["type"], second["type"]) == ("ADDED", "DELETED")
    assert first["object"]["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    last = int(second["object"]["metadata"]["resourceVersion"])
    assert last > int(made["metadata"]["resourceVersion"])
    rest = []
    while event := stream.next():
        rest.append(event["type"])
    assert set(rest) <= {"BOOKMARK"}
    stream.close()


@pytest.mark.standin_only
def test_a_dependent_of_a_node_that_is_gone_is_collected(target):
    body = lease_body()
    owner = {"apiVersion": "v1", "kind": "Node", "name": target.node, "uid": target.node_uid()}
    body["metadata"]["ownerReferences"] = [owner]
    target.admin.create(target.leases_path(), body)
    target.delete_node()
    target.create_node()
    until(lambda: target.admin.find(target.leases_path() + "/a") is None, 10, "collected")


@pytest.mark.standin_only
def test_rights_are_checked_and_refused_in_the_servers_words(target):
    dpu = Kube(target.standin.url, "dpu-token")
    error = refused(dpu.create, target.leases_path(), lease_body())
    assert (error.code, error.reason) == (403, "Forbidden")
    assert error.message == (
        'leases.coordination.k8s.io is forbidden: User "dpu" cannot create resource "leases" in '
        'API group "coordination.k8s.io" in the namespace "ovn-kubernetes"'
    )
    error = refused(Kube(target.standin.url, "nobody").get, target.leases_path())
    assert (error.code, error.reason) == (401, "Unauthorized")
    asked = {"verb": "update", "group": "coordination.k8s.io", "resource": "leases"}
    asked["namespace"] = target.namespace
    review = {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}
    answer = dpu.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                        {"apiVersion": "authorization.k8s.io/v1", **review})  # fmt: skip
    assert answer["status"]["allowed"] is True


def test_what_is_not_served_is_not_found_in_plain_text(target):
    code, text = target.admin.request("GET", "/apis/nothing.example/v1/things")
    assert (code, text) == (404, "404 page not found\n")
    error = refused(target.admin.get, "/apis/coordination.k8s.io/v1/nothings")
    assert (error.code, error.reason) == (404, "NotFound")
