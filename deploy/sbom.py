#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""sbom.py VERSION COMMIT TIME DIRECTORY: an SPDX 2.3 document of the release's files in DIRECTORY, on
stdout. TIME is the commit's, in seconds; the same files make the same bytes.

Each file is a package of the document, with its SHA-256. An image contains our programs, and the
libraries that they load: of each, the Debian package that this machine has it from, with its version,
provided that the image's file is that package's file. A .deb names the packages that it depends on. The
C library is linked into dpu-gate. Tools that look for packages in an image find none: it has no list of
packages, for it has nothing but these files."""

import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from datetime import datetime, timezone

LICENSE = "Apache-2.0"
OURS = ("usr/sbin/", "usr/bin/", "usr/libexec/")  # whatever of Debian's is in an image is a library
NO_PACKAGE = {"etc/nsswitch.conf"}  # deploy/image.sh writes it
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"


class Gap(Exception):
    """A file of which nobody can say where it is from."""


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def identifier(text):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


def layers(image):
    """(path, content) of each regular file of an OCI archive."""
    with tarfile.open(image) as archive:
        def blob(digest):
            return archive.extractfile(archive.getmember(f"./blobs/sha256/{digest.split(':')[1]}"))

        index = json.load(archive.extractfile("./index.json"))
        manifest = json.load(blob(index["manifests"][0]["digest"]))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=blob(layer["digest"]), mode="r:*") as files:
                for member in files:
                    if member.isreg():
                        yield member.name.removeprefix("./"), files.extractfile(member).read()


def owner_of(path, content, arch):
    """(package, version) of Debian's that a file of the image is from."""
    if path == CERTIFICATES:
        return "ca-certificates", version_of("ca-certificates")
    name = os.path.basename(path)
    triple = path.split("/")[2]
    for there in (f"/usr/lib/{triple}/{name}", f"/lib/{triple}/{name}", f"/usr/{triple}/lib/{name}"):
        if not os.path.exists(there):
            continue
        real = os.path.realpath(there)
        with open(real, "rb") as file:
            if file.read() != content:
                continue
        package = package_of(there, real)
        if package:
            return package.split(":")[0], version_of(package)
    raise Gap(f"{path} ({arch}) is of no package that is installed here")


@functools.cache  # both images have most libraries, and dpkg reads all its lists each time
def package_of(link, real):
    """Debian's package that has a file by one of its names; None if there is none."""
    for known in (link, real, real.removeprefix("/usr")):
        done = subprocess.run(["dpkg", "-S", known], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.split(": ")[0].split(",")[0]
    return None


@functools.cache
def version_of(package):
    return output("dpkg-query", "-W", "-f=${Version}", package)


class Document:
    def __init__(self, version, commit, seconds):
        self.version = version
        self.packages = {}
        self.relations = set()
        self.head = {
            "spdxVersion": "SPDX-2.3",
            "dataLicense": "CC0-1.0",
            "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"dpu-heartbeat-{version}",
            "documentNamespace": f"urn:dpu-heartbeat:{version}:{commit}",
            "creationInfo": {
                "created": datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "creators": ["Tool: dpu-heartbeat-deploy-sbom"],
            },
        }

    def ours(self, directory, name):
        """One file of the release."""
        self.packages[name] = {
            "SPDXID": identifier(name), "name": name, "versionInfo": self.version, "packageFileName": name,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "supplier": "NOASSERTION",
            "licenseConcluded": LICENSE if not name.endswith(".tar") else "NOASSERTION",
            "licenseDeclared": LICENSE if not name.endswith(".tar") else "NOASSERTION", "copyrightText": "NOASSERTION",
            "checksums": [{"algorithm": "SHA256", "checksumValue": sha256(os.path.join(directory, name))}],
        }  # fmt: skip
        self.relate("DOCUMENT", "DESCRIBES", name)
        return name

    def debian(self, package, version, arch):
        """A package of Debian's; version None: whichever the installer finds."""
        key = f"{package}-{version}-{arch}" if version else f"{package}-{arch}"
        purl = f"pkg:deb/debian/{package}" + (f"@{version}" if version else "") + f"?arch={arch}"
        self.packages.setdefault(key, {
            "SPDXID": identifier(key), "name": package, **({"versionInfo": version} if version else {}),
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "supplier": "Organization: Debian",
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}],
        })  # fmt: skip
        return key

    def relate(self, one, how, other, comment=""):
        self.relations.add((identifier(one), how, identifier(other), comment))

    def text(self):
        relations = [
            {"spdxElementId": one, "relationshipType": how, "relatedSpdxElement": other, **({"comment": why} if why else {})}
            for one, how, other, why in sorted(self.relations)
        ]
        packages = [self.packages[key] for key in sorted(self.packages)]
        return json.dumps({**self.head, "packages": packages, "relationships": relations}, indent=1) + "\n"


def arch_of(name):
    return re.search(r"[-_](amd64|arm64)\.(?:deb|tar)$", name)[1]


def describe_image(document, directory, name):
    arch = arch_of(name)
    for path, content in layers(os.path.join(directory, name)):
        if path.startswith(OURS):
            document.relate(name, "CONTAINS", f"dpu-heartbeat-{document.version}.tar.gz", f"/{path}, built from these sources")
        elif path not in NO_PACKAGE:
            package, version = owner_of(path, content, arch)
            document.relate(name, "CONTAINS", document.debian(package, version, arch))


def describe_deb(document, directory, name):
    arch = arch_of(name)
    for part in output("dpkg-deb", "-f", os.path.join(directory, name), "Depends").strip().split(", "):
        package, _, needs = part.partition(" ")
        document.relate(name, "DEPENDS_ON", document.debian(package, None, arch), needs)
    libc = "libc6-dev" if arch == output("dpkg", "--print-architecture").strip() else f"libc6-dev-{arch}-cross"
    if "-host_" in name:
        document.relate(name, "STATIC_LINK", document.debian(libc, version_of(libc), arch), "dpu-gate")


def main(version, commit, seconds, directory):
    document = Document(version, commit, int(seconds))
    try:
        for name in sorted(os.listdir(directory)):
            document.ours(directory, name)
            if name.endswith(".tar"):
                describe_image(document, directory, name)
            elif name.endswith(".deb"):
                describe_deb(document, directory, name)
    except Gap as gap:
        print(f"sbom.py: {gap}", file=sys.stderr)
        return 1
    sys.stdout.write(document.text())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
