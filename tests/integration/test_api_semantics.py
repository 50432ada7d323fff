# SPDX-License-Identifier: Apache-2.0
"""What our agents rely on in the API server. Run against both targets, these cases hold the
stand-in to the real server's behaviour."""

import copy
import json

import pytest
from dpu_testing.kube import ApiError, micro_time
from target import NODES


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


def test_update_of_another_or_a_missing_lease_is_refused_by_its_uid_and_makes_one_without(target):
    path = target.leases_path() + "/a"
    made = target.admin.create(target.leases_path(), lease_body())
    target.admin.delete(path)
    for is_there in (False, True):
        if is_there:
            target.admin.create(target.leases_path(), lease_body())
        error = refused(target.admin.update, path, made)
        assert (error.code, error.reason) == (409, "Conflict")
        assert "Precondition failed: UID in precondition" in error.message
    target.admin.delete(path)
    del made["metadata"]["uid"]
    code, again = target.admin.request("PUT", path, made)
    assert code == 201
    assert again["kind"] == "Lease"


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


def test_a_patch_on_trial_is_judged_and_answered_but_not_stored(target):
    path = target.leases_path() + "/a"
    made = target.admin.create(target.leases_path(), lease_body())
    note = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"], "annotations": {"a": "b"}}}
    answer = target.admin.patch(path + "?dryRun=All", note)
    assert answer["metadata"]["annotations"] == {"a": "b"}
    assert target.admin.get(path) == made
    note["metadata"]["resourceVersion"] = "1"
    assert refused(target.admin.patch, path + "?dryRun=All", note).code == 409


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


def test_watch_resumes_ends_in_time_and_says_goodbye_with_a_bookmark(target):
    start = target.admin.get(target.leases_path())["metadata"]["resourceVersion"]
    made = target.admin.create(target.leases_path(), lease_body(renewTime=micro_time()))
    target.admin.delete(target.leases_path() + "/a")
    query = "allowWatchBookmarks=true&timeoutSeconds=1&fieldSelector=metadata.name%3Da"
    connection = target.admin.connect(timeout_s=20)
    headers = {"Authorization": f"Bearer {target.admin.token}"} if target.admin.token else {}
    path = f"{target.leases_path()}?watch=true&resourceVersion={start}&{query}"
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.getheader("Content-Type").startswith("application/json")
    first, second, *rest = [json.loads(line) for line in answer]  # to its orderly end
    connection.close()
    assert (first["type"], second["type"]) == ("ADDED", "DELETED")
    assert first["object"]["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    last = int(second["object"]["metadata"]["resourceVersion"])
    assert last > int(made["metadata"]["resourceVersion"])
    assert {event["type"] for event in rest} <= {"BOOKMARK"}


def test_what_is_not_served_is_not_found_in_plain_text(target):
    code, text = target.admin.request("GET", "/apis/nothing.example/v1/things")
    assert (code, text) == (404, "404 page not found\n")
    error = refused(target.admin.get, "/apis/coordination.k8s.io/v1/nothings")
    assert (error.code, error.reason) == (404, "NotFound")


def test_a_body_that_is_too_large_or_of_another_kind_is_refused_in_words(target):
    path = target.leases_path()
    target.admin.create(path, lease_body())
    large = lease_body("large")
    large["metadata"]["annotations"] = {"a": "x" * (3 << 20)}
    code, status = target.admin.request("POST", path, large)
    assert (code, status["reason"]) == (413, "RequestEntityTooLarge")
    assert status["message"] == "Request entity too large: limit is 3145728"

    code, status = target.admin.request("POST", path, lease_body("b"), content_type="text/plain")
    assert (code, status["reason"]) == (415, "UnsupportedMediaType")
    assert status["message"].startswith("the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf")
    code, status = target.admin.request("PATCH", path + "/a", {}, content_type="text/plain")
    assert (code, status["reason"], status["message"]) == (415, "UnsupportedMediaType", "415: Unsupported Media Type")
    assert [lease["metadata"]["name"] for lease in target.admin.get(path)["items"]] == ["a"]


def test_a_page_counts_what_is_behind_it_unless_a_selector_asks(target):
    path = target.leases_path()
    for name in "abcd":
        target.admin.create(path, lease_body(name))
    first = target.admin.get(path + "?limit=3")["metadata"]
    assert first["continue"] and first["remainingItemCount"] == 1
    second = target.admin.get(path + "?limit=3&continue=" + first["continue"])
    assert [item["metadata"]["name"] for item in second["items"]] == ["d"]
    assert "remainingItemCount" not in second["metadata"] and "continue" not in second["metadata"]
    selected = target.admin.get(path + "?limit=3&fieldSelector=metadata.namespace=" + target.namespace)["metadata"]
    assert selected["continue"] and "remainingItemCount" not in selected


def fields_by_client(thing):
    """metadata.managedFields, in their order: client and subresource, then what is the client's."""
    entries = thing["metadata"].get("managedFields", [])
    for entry in entries:
        assert (entry["operation"], entry["fieldsType"]) == ("Update", "FieldsV1")
        assert entry["apiVersion"] == thing["apiVersion"] and len(entry["time"]) == len("2026-01-01T00:00:00Z")
    return [(entry["manager"], entry.get("subresource", ""), entry["fieldsV1"]) for entry in entries]


def owner_of(target):
    uid = target.node_uid()
    owner = {"apiVersion": "v1", "kind": "Node", "name": target.node, "uid": uid}
    return owner, {".": {}, f'k:{{"uid":"{uid}"}}': {}}


def test_a_field_belongs_to_the_client_that_changed_it_last(target):
    path = target.leases_path() + "/a"
    ann, bob = target.admin.under("ann/1.0 (of the host)"), target.admin.under("bob")
    owner, owners = owner_of(target)
    body = lease_body(holderIdentity="x", leaseDurationSeconds=7)
    body["metadata"].update(annotations={"a": "1", "b": "1"}, labels={"l": "1"}, ownerReferences=[owner])
    made = ann.create(target.leases_path(), body)
    labels = {".": {}, "f:l": {}}
    meta = {"f:annotations": {".": {}, "f:a": {}, "f:b": {}}, "f:labels": labels, "f:ownerReferences": owners}
    both = {"f:holderIdentity": {}, "f:leaseDurationSeconds": {}}
    assert fields_by_client(made) == [("ann", "", {"f:metadata": meta, "f:spec": both})]

    # What is written with the value that it has stays its owner's; what is changed or removed does not.
    change = {"metadata": {"annotations": {"a": "2", "b": None, "c": "1"}, "labels": None}}
    change["spec"] = {"holderIdentity": "x", "leaseDurationSeconds": 8, "renewTime": micro_time()}
    changed = bob.patch(path, change)
    meta = {"f:annotations": {}, "f:ownerReferences": owners}
    spec = {"f:leaseDurationSeconds": {}, "f:renewTime": {}}
    of_ann = ("ann", "", {"f:metadata": meta, "f:spec": {"f:holderIdentity": {}}})
    of_bob = ("bob", "", {"f:metadata": {"f:annotations": {"f:a": {}, "f:c": {}}}, "f:spec": spec})
    assert fields_by_client(changed) == [of_ann, of_bob]

    # A PUT that brings no managedFields leaves what there are, and one that changes nothing all of it.
    bare = copy.deepcopy(changed)
    del bare["metadata"]["managedFields"]
    assert target.admin.under("carl/2").update(path, bare) == changed
    bare["spec"]["holderIdentity"] = "y"
    of_ann = ("ann", "", {"f:metadata": meta})
    of_carl = ("carl", "", {"f:spec": {"f:holderIdentity": {}}})
    put = target.admin.under("carl/2").update(path, bare)
    assert sorted(fields_by_client(put)) == [of_ann, of_bob, of_carl]
    assert target.admin.get(path) == put

    # A client may end the account by [{}], and it does not begin anew.
    ended = bob.patch(path, {"metadata": {"managedFields": [{}]}})
    assert fields_by_client(ended) == []
    assert fields_by_client(bob.patch(path, {"spec": {"holderIdentity": "z"}})) == []


def test_a_client_that_is_not_told_apart_has_one_name_and_a_subresource_its_own_entry(target):
    ann, path = target.admin.under("ann/1"), f"{NODES}/{target.node}-2"
    # With an annotation: controllers of the real server add some, and would own the map.
    meta = {"name": f"{target.node}-2", "annotations": {"b": "1"}}
    try:
        target.admin.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": meta})
        ann.patch(path, {"metadata": {"annotations": {"a": "1"}}})
        times = dict.fromkeys(("lastTransitionTime", "lastHeartbeatTime"), "2026-01-01T00:00:00Z")
        condition = {"type": "Odd", "status": "True", **times}
        told = ann.do(
            "PATCH",
            path + "/status",
            {"status": {"conditions": [condition]}},
            content_type="application/strategic-merge-patch+json",
        )
        fields = {entry[:2]: entry[2] for entry in fields_by_client(told)}
        assert fields["unknown", ""] == {"f:metadata": {"f:annotations": {".": {}, "f:b": {}}}}
        assert fields["ann", ""] == {"f:metadata": {"f:annotations": {"f:a": {}}}}
        members = {".": {}, "f:type": {}, "f:status": {}, "f:lastTransitionTime": {}, "f:lastHeartbeatTime": {}}
        assert fields["ann", "status"]["f:status"]["f:conditions"]['k:{"type":"Odd"}'] == members
    finally:
        target.admin.delete(path)
