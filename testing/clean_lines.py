"""Lines of logs as healthy hosts write them, made up by us, with words about secrets and no secret."""

# ruff: noqa: E501 - a line of a log is as long as it is, and there are many

import base64
import random
import uuid
from collections.abc import Callable, Iterator
from typing import Final

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


class _Words:
    """Words that differ from line to line."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def number(self, low: int = 0, high: int = 99999) -> int:
        return self._random.randint(low, high)

    def of(self, *choices: str) -> str:
        return self._random.choice(choices)

    def hex(self, size: int) -> str:
        return f"{self._random.getrandbits(4 * size):0{size}x}"

    def uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128)))

    def digest(self) -> str:
        return f"sha256:{self.hex(64)}"

    def image(self) -> str:
        return f"quay.io/openshift-release-dev/ocp-v4.0-art-dev@{self.digest()}"

    def ip(self) -> str:
        return f"10.{self.number(0, 255)}.{self.number(0, 255)}.{self.number(1, 254)}"

    def ip6(self) -> str:
        return f"fd2e:6f44:5dd8::{self.hex(4)}:{self.hex(4)}"

    def mac(self) -> str:
        return ":".join(self.hex(2) for _ in range(6))

    def suffix(self, size: int = 5) -> str:
        return "".join(self._random.choice(_LETTERS) for _ in range(size))

    def pod(self) -> str:
        name = self.of(
            "etcd-master-0", "kube-apiserver-master-1", "dns-default", "multus", "machine-config-server"
        )
        return f"{name}-{self.suffix()}"

    def base64(self, size: int) -> str:
        return base64.b64encode(self._random.randbytes(size)).decode()

    def time(self) -> str:
        return f"{self.number(0, 23):02}:{self.number(0, 59):02}:{self.number(0, 59):02}"

    def klog(self, file: str) -> str:
        return f"I1121 {self.time()}.{self.number(0, 999999):06} {self.number(1000, 9999)} {file}:{self.number(10, 999)}]"


def _sshd(w: _Words) -> Iterator[str]:
    name, address, port = w.of("root", "core", "admin"), w.ip(), w.number(1024, 65535)
    yield f"Failed password for {name} from {address} port {port} ssh2"
    yield f"Failed password for invalid user {name} from {w.ip6()} port {port} ssh2"
    yield f"Accepted publickey for core from {address} port {port} ssh2: ED25519 SHA256:{w.base64(32)[:43]}"
    yield f"pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost={address}  user={name}"
    yield f"Postponed keyboard-interactive for {name} from {address} port {port} ssh2 [preauth]"
    yield f"error: maximum authentication attempts exceeded for {name} from {address} port {port} ssh2 [preauth]"
    yield f"Connection closed by authenticating user {name} {address} port {port} [preauth]"
    yield f"message repeated {w.number(2, 9)} times: [ Failed password for {name} from {address} port {port} ssh2]"


def _kernel(w: _Words) -> Iterator[str]:
    yield f"[{w.number(0, 9999):5}.{w.number(0, 999999):06}] pci 0000:{w.hex(2)}:00.0: [8086:{w.hex(4)}] type 00 class 0x{w.hex(6)}"
    yield f"Command line: BOOT_IMAGE=(hd0,gpt3)/ostree/rhcos-{w.hex(64)}/vmlinuz root=UUID={w.uuid()} rw rootflags=prjquota ignition.platform.id=metal"
    yield f'audit: type=1400 audit({w.number()}.{w.number(0, 999)}:{w.number()}): avc:  denied  {{ read }} for  pid={w.number()} comm="passwd" name="shadow"'
    yield f"EXT4-fs (vda3): mounted filesystem {w.uuid()} r/w with ordered data mode. Quota mode: none."
    yield "Key type encrypted registered"
    yield "Loaded X.509 cert 'Red Hat Secure Boot CA 5: cc6fa5e72868ba494e939bbd680b9144769a9f8f'"
    yield f"device-mapper: crypt: secret key slot {w.number(0, 7)} not used"
    yield f"IPv6: ADDRCONF(NETDEV_CHANGE): {w.suffix(15)}: link becomes ready"
    yield f"TCP: request_sock_TCP: Possible SYN flooding on port {w.number(1, 65535)}. Sending cookies."


def _kubelet(w: _Words) -> Iterator[str]:
    volume = f"kube-api-access-{w.suffix()}"
    yield f'{w.klog("reconciler_common.go")} "operationExecutor.MountVolume started for volume \\"{volume}\\" (UniqueName: \\"kubernetes.io/projected/{w.uuid()}-{volume}\\") pod \\"{w.pod()}\\" (UID: \\"{w.uuid()}\\") "'
    yield f'{w.klog("operation_generator.go")} "MountVolume.SetUp succeeded for volume \\"serving-cert\\" (UniqueName: \\"kubernetes.io/secret/{w.uuid()}-serving-cert\\") pod \\"{w.pod()}\\""'
    yield f'E1121 {w.time()}.1 2 reflector.go:158] "Unhandled Error" err="object-\\"openshift-etcd\\"/\\"etcd-client\\": Failed to watch *v1.Secret: failed to list *v1.Secret: secrets \\"etcd-client\\" is forbidden: User \\"system:node:master-0\\" cannot list resource \\"secrets\\""'
    yield f'{w.klog("kubelet_pods.go")} "Unable to retrieve pull secret, the image pull may not succeed." pod="openshift-dns/{w.pod()}" secret="" err="secret \\"default-dockercfg-{w.suffix()}\\" not found"'
    yield f'{w.klog("token_manager.go")} "Couldn\'t update token" err="serviceaccounts \\"default\\" is forbidden" cacheKey="\\"default\\"/\\"openshift-dns\\"/[]string(nil)/3607/v1.BoundObjectReference{{Kind:\\"Pod\\"}}"'
    yield f'{w.klog("flags.go")} FLAG: --bootstrap-kubeconfig="/etc/kubernetes/kubeconfig"'
    yield f'{w.klog("flags.go")} FLAG: --token-auth-file="" FLAG: --authentication-token-webhook="false" FLAG: --tls-private-key-file=""'
    yield f'{w.klog("flags.go")} FLAG: --authentication-token-webhook-cache-ttl="2m0s"'
    yield f"{w.klog('certificate_manager.go')} kubernetes.io/kube-apiserver-client-kubelet: Rotating certificates"
    yield f'{w.klog("kubelet.go")} "SyncLoop (PLEG): event for pod" pod="openshift-etcd/{w.pod()}" event={{"ID":"{w.uuid()}","Type":"ContainerStarted","Data":"{w.hex(64)}"}}'
    yield f'{w.klog("status_manager.go")} "Failed to get status for pod" podUID="{w.uuid()}" err="Get \\"https://api-int.ocp.example.com:6443/api/v1/namespaces/openshift-etcd/pods/{w.pod()}\\": dial tcp {w.ip()}:6443: connect: connection refused"'
    yield f"{w.klog('csr.go')} certificate signing request csr-{w.suffix()} is approved, waiting to be issued"
    yield f'{w.klog("projected.go")} Couldn\'t get secret payload openshift-etcd/etcd-all-certs: object "openshift-etcd"/"etcd-all-certs" not registered'


def _crio(w: _Words) -> Iterator[str]:
    yield f'time="2026-11-21T{w.time()}Z" level=info msg="Pulling image: {w.image()}" id={w.uuid()} name=/runtime.v1.ImageService/PullImage'
    yield f'time="2026-11-21T{w.time()}Z" level=info msg="Trying to access \\"{w.image()}\\""'
    yield f'time="2026-11-21T{w.time()}Z" level=info msg="Created container {w.hex(64)}: openshift-dns/{w.pod()}/dns" id={w.uuid()}'
    yield f'time="2026-11-21T{w.time()}Z" level=warning msg="Error getting ctr exit code: unauthorized: access to the requested resource is not authorized"'
    yield f'time="2026-11-21T{w.time()}Z" level=error msg="reading manifest {w.digest()} in quay.io/openshift-release-dev/ocp-release: unauthorized: authentication required"'
    yield "Using /root/.docker/config.json as auth file; authfile=/var/lib/kubelet/config.json"


def _systemd(w: _Words) -> Iterator[str]:
    yield "Started Dispatch Password Requests to Console Directory Watch."
    yield "Forward Password Requests to Wall Directory Watch was skipped because of an unmet condition check."
    yield "Starting OpenSSH ed25519 Server Key Generation..."
    yield f"bootkube.service: Main process exited, code=exited, status={w.number(1, 255)}/n/a"
    yield f"run-r{w.hex(32)}.scope: Deactivated successfully."
    yield f"session-{w.number(1, 99)}.scope: Consumed {w.number(1, 999)}ms CPU time."
    yield f"var-lib-kubelet-pods-{w.uuid().replace('-', chr(92) + 'x2d')}-volumes-kubernetes.io\\x7esecret-node\\x2dtoken.mount: Deactivated successfully."
    yield f"systemd-journald[{w.number()}]: Journal started, machine id {w.hex(32)}, boot id {w.hex(32)}"
    yield "Set up automount Arbitrary Executable File Formats File System Automount Point."
    yield f"sudo[{w.number()}]:     core : TTY=pts/0 ; PWD=/var/home/core ; USER=root ; COMMAND=/usr/bin/cat /etc/kubernetes/kubeconfig"


def _network(w: _Words) -> Iterator[str]:
    yield f"<info>  [{w.number()}.{w.number(0, 9999)}] device (enp{w.number(1, 9)}s0): state change: need-auth -> prepare (reason 'none', sys-iface-state: 'managed')"
    yield f'<info>  [{w.number()}.1] keyfile: add connection /etc/NetworkManager/system-connections/bond0.nmconnection ({w.uuid()},"bond0")'
    yield f"<info>  [{w.number()}.1] agent-manager: agent[{w.hex(16)},:1.{w.number(1, 99)}/org.freedesktop.nm-applet/0]: agent registered"
    yield f"<warn>  [{w.number()}.1] device (wlan0): Activation: (wifi) Secrets were required, but not provided (psk-flags=1)"
    yield f"dhcp4 (enp1s0): state changed new lease, address={w.ip()}, acd pending"
    yield f"br-ex: cookie=0x{w.hex(16)}, duration={w.number()}.1s, table=0, n_packets={w.number()}, n_bytes={w.number()}, priority=100,ip,in_port=1 actions=ct(zone=64000)"
    yield f"link/ether {w.mac()} brd ff:ff:ff:ff:ff:ff permaddr {w.mac()}"


def _bootkube(w: _Words) -> Iterator[str]:
    yield f"Rendering Cluster Version Operator Manifests... {w.image()}"
    yield 'Copied "/opt/openshift/openshift/99_kubeadmin-password-secret.yaml" to "manifests/99_kubeadmin-password-secret.yaml"'
    yield f'Created "0000_00_cluster-version-operator_{w.number()}_secret.yaml" secrets.v1./initial-service-account-private-key -n openshift-config'
    yield 'Skipped "secret-bootstrap-kube-controller-manager-signer.yaml" secrets.v1./csr-signer-signer -n openshift-kube-controller-manager-operator as it already exists'
    yield f"{w.hex(64)}"
    yield f"I1121 {w.time()}.1 1 client_config.go:618] Neither --kubeconfig nor --master was specified.  Using the inClusterConfig."
    yield f"Error: error while checking pod status: timed out waiting for the condition; token expired at 2026-11-21T{w.time()}Z"
    yield f'[#{w.number()}] failed to fetch discovery: Get "https://localhost:6443/api?timeout=32s": dial tcp [::1]:6443: connect: connection refused'
    yield f"https://{w.ip()}:22623/config/master?token_type=ignition: x509: certificate signed by unknown authority"
    yield f"Pulling quay.io:443/openshift/release:4.16.{w.number(0, 40)}-x86_64@{w.digest()}"
    yield "    password: <hidden>"
    yield "the password of kubeadmin is in the file /opt/openshift/auth/kubeadmin-password"


def _etcd(w: _Words) -> Iterator[str]:
    yield f'{{"level":"info","ts":"2026-11-21T{w.time()}.123Z","caller":"etcdserver/server.go:{w.number(1, 999)}","msg":"starting etcd server","local-member-id":"{w.hex(16)}","cluster-id":"{w.hex(16)}","auth-token":"simple"}}'
    yield f'{{"level":"warn","ts":"2026-11-21T{w.time()}.123Z","logger":"etcd-client","caller":"v3@v3.5.{w.number(1, 99)}/retry_interceptor.go:63","msg":"retrying of unary invoker failed","target":"etcd-endpoints://0x{w.hex(10)}/{w.ip()}:2379","error":"rpc error: code = Unavailable desc = connection error"}}'
    yield f'{{"level":"info","msg":"simple token is not cryptographically signed","caller":"auth/store.go:{w.number(1, 999)}"}}'
    yield f'{{"level":"info","msg":"applied","key":"/kubernetes.io/secrets/openshift-etcd/etcd-peer-master-0","revision":{w.number()},"hash":{w.number()}}}'


def _certificates(w: _Words) -> Iterator[str]:
    """Public ones, and what else is base64 and no secret."""
    yield "-----BEGIN CERTIFICATE-----"
    for _ in range(6):
        yield w.base64(48)
    yield w.base64(20)
    yield "-----END CERTIFICATE-----"
    yield f"    certificate-authority-data: {base64.b64encode(b'-----BEGIN CERTIFICATE-----' + w.base64(90).encode()).decode()}"
    yield f"ssh-ed25519 {w.base64(51)} core@example.com"
    yield f"SHA256:{w.base64(32)[:43]} root@master-0 (RSA)"
    yield f"Subject: CN=system:node:master-0 serial={w.hex(40)} keyid:{w.mac()}:{w.mac()}"
    yield f'"integrity":"sha512-{w.base64(64)}"'


_SOURCES: Final[tuple[tuple[str, Callable[[_Words], Iterator[str]]], ...]] = (
    ("sshd[%d]: ", _sshd),
    ("kernel: ", _kernel),
    ("kubenswrapper[%d]: ", _kubelet),
    ("crio[%d]: ", _crio),
    ("systemd[1]: ", _systemd),
    ("NetworkManager[%d]: ", _network),
    ("bootkube.sh[%d]: ", _bootkube),
    ("etcd[%d]: ", _etcd),
    ("cat[%d]: ", _certificates),
)


def clean_lines(rounds: int = 160, seed: int = 20261121) -> list[str]:
    """About 70 lines a round, in a journal's form; always the same for the same seed."""
    words = _Words(seed)
    lines: list[str] = []
    for _ in range(rounds):
        for identifier, source in _SOURCES:
            name = identifier % words.number(100, 99999) if "%d" in identifier else identifier
            prefix = f"Nov 21 {words.time()} master-0.ocp.example.com {name}"
            lines.extend(prefix + text for text in source(words))
    return lines
