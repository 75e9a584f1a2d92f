# SPDX-License-Identifier: Apache-2.0
"""What the cluster's programs are told: keys, files of settings, and their command lines."""
import json
import os
import shutil
import subprocess

NODE, ADDRESS, PODS, SERVICES = "node1", "10.98.0.1", "10.97.0.0/24", "10.96.0.0/24"
DOMAIN = "cluster.local"
API = "https://127.0.0.1:6443"
GATES = "ProcMountType=true"
SOCKET = "/run/containerd/containerd.sock"
MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
MOST = 5 << 30  # bytes that all of the cluster may use before pods are evicted
CLIENT = "extendedKeyUsage=clientAuth"
PAUSE = "int pause(void);\nint main(void)\n{\n    for (;;)\n        pause();\n}\n"
CONTAINERD = """version = 2
root = "{dir}/containerd"
state = "/run/containerd"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true # for machines without CAP_SYS_RESOURCE
  cni.bin_dir = "/usr/lib/cni"
  cni.conf_dir = "{dir}/net.d"
  containerd.runtimes.runc.runtime_type = "io.containerd.runc.v2"
  containerd.runtimes.runc.options.BinaryName = "{runc}"
"""


def openssl(*args, given=None):
    subprocess.run(["openssl", *args], input=given, check=True, capture_output=True, text=True)


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Keys:
    """An authority of the test's own, and what it signs."""

    def __init__(self, directory, name="ca"):
        self.dir = directory
        os.makedirs(directory, exist_ok=True)
        self.ca = self.path(name)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-days", "30", "-subj", "/CN=test", "-keyout", self.ca + ".key", "-out", self.ca + ".crt")

    def path(self, name):
        return os.path.join(self.dir, name)

    def sign(self, name, subject, extensions=CLIENT):
        base = self.path(name)
        write(base + ".ext", extensions)
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                subject, "-keyout", base + ".key", "-out", base + ".csr")
        openssl("x509", "-req", "-in", base + ".csr", "-CA", self.ca + ".crt", "-CAkey",
                self.ca + ".key", "-CAcreateserial", "-days", "30", "-extfile", base + ".ext",
                "-out", base + ".crt")


class Settings:
    def __init__(self, programs, directory):
        self.programs = programs
        self.dir = directory
        self.spare = max(MEMORY - MOST, 100 << 20)

    def path(self, name):
        return os.path.join(self.dir, name)

    def environment(self):
        return ["PATH=%s:/usr/sbin:/usr/bin:/sbin:/bin" % self.programs,
                "KUBECONFIG=" + self.path("admin.conf"), "CONTAINERD_NAMESPACE=k8s.io",
                "CONTAINERD_ADDRESS=" + SOCKET, "HOME=/tmp"]

    def write(self):
        for name in ("log", "net.d", "kubelet/seccomp", "keys"):
            os.makedirs(self.path(name), exist_ok=True)
        self.write_keys()
        write(self.path("containerd.toml"), CONTAINERD.format(
            dir=self.dir, runc=shutil.which("runc", path="/usr/sbin:/usr/bin")))
        write(self.path("net.d/10-bridge.conflist"), json.dumps({
            "cniVersion": "0.4.0", "name": "pods", "plugins": [
                {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True,
                 "hairpinMode": True, "ipam": {
                     "type": "host-local", "dataDir": "/run/cni-ipam", "subnet": PODS,
                     "routes": [{"dst": "0.0.0.0/0"}]}},
                {"type": "portmap", "capabilities": {"portMappings": True}}]}))
        write(self.path("kubelet.yaml"), "---\n" + json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "cgroupDriver": "cgroupfs", "failSwapOn": False, "resolvConf": "",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                               "x509": {"clientCAFile": self.path("keys/ca.crt")}},
            "authorization": {"mode": "Webhook"}, "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%",
                             "imagefs.available": "1%"},
            "evictionSoft": {"memory.available": str(self.spare)},
            "evictionSoftGracePeriod": {"memory.available": "1s"},
            "evictionMaxPodGracePeriod": 0, "evictionPressureTransitionPeriod": "5s",
            "volumeStatsAggPeriod": "10s", "syncFrequency": "5s", "clusterDNS": [ADDRESS],
            "clusterDomain": DOMAIN, "nodeStatusUpdateFrequency": "1s",
            "volumePluginDir": self.path("volume-plugins")}))

    def write_keys(self):
        keys = Keys(self.path("keys"))
        openssl("genrsa", "-out", keys.path("sa.key"), "2048")
        names = ["DNS:kubernetes.default.svc", "DNS:localhost", "IP:127.0.0.1", "IP:" + ADDRESS,
                 "IP:" + SERVICES.replace("0/24", "1")]
        keys.sign("apiserver", "/CN=kube-apiserver",
                  "extendedKeyUsage=serverAuth\nsubjectAltName=" + ",".join(names))
        for who, subject in {"admin": "/O=system:masters/CN=admin",
                             "kubelet": "/O=system:nodes/CN=system:node:" + NODE,
                             "controller-manager": "/CN=system:kube-controller-manager",
                             "scheduler": "/CN=system:kube-scheduler",
                             "proxy": "/CN=system:kube-proxy"}.items():
            keys.sign(who, subject)
            write(self.path(who + ".conf"), json.dumps({
                "apiVersion": "v1", "kind": "Config", "current-context": "c",
                "clusters": [{"name": "c", "cluster": {
                    "server": API, "certificate-authority": keys.path("ca.crt")}}],
                "users": [{"name": "u", "user": {"client-certificate": keys.path(who + ".crt"),
                                                 "client-key": keys.path(who + ".key")}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}))

    def pause(self):
        """The image of what holds a pod's namespaces: an archive of one static program."""
        work = self.path("pause")
        os.makedirs(work, exist_ok=True)
        write(work + "/recipe", 'ENTRYPOINT ["/pause"]\n')
        subprocess.run(["cc", "-static", "-O2", "-x", "c", "-o", work + "/pause", "-"], input=PAUSE,
                       text=True, check=True)
        subprocess.run(["tar", "-C", work, "-cf", work + "/root.tar", "pause"], check=True)
        archive = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../images/archive")
        subprocess.run(["/usr/bin/python3", archive, work + "/root.tar", work + "/recipe",
                        "localhost/pause:1", work + "/image.tar"], check=True)
        return work + "/image.tar"

    def commands(self):
        """Each program with its words, in the order in which they begin."""
        key = lambda name: self.path("keys/" + name)  # noqa: E731
        gates = "--feature-gates=" + GATES
        return [
            ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
             "--addn-hosts=/run/names", "--listen-address=" + ADDRESS, "--bind-interfaces",
             "--local=/%s/" % DOMAIN, "--user=root", "--pid-file=/run/dnsmasq.pid", "--local-ttl=1"],
            ["containerd", "--config", self.path("containerd.toml")],
            ["etcd", "--data-dir", "/run/etcd", "--listen-peer-urls", "http://127.0.0.1:2380",
             "--listen-client-urls=http://127.0.0.1:2379",
             "--advertise-client-urls=http://127.0.0.1:2379", "--unsafe-no-fsync"],
            ["kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--advertise-address=" + ADDRESS,
             "--service-cluster-ip-range=" + SERVICES, "--authorization-mode=Node,RBAC",
             "--client-ca-file=" + key("ca.crt"), "--tls-cert-file=" + key("apiserver.crt"),
             "--tls-private-key-file=" + key("apiserver.key"),
             "--kubelet-client-key=" + key("admin.key"),
             "--kubelet-client-certificate=" + key("admin.crt"),
             "--service-account-issuer=https://kubernetes",
             "--service-account-key-file=" + key("sa.key"),
             "--service-account-signing-key-file=" + key("sa.key"),
             "--kubelet-preferred-address-types=InternalIP", "--cert-dir=/run/apiserver", gates],
            ["kube-controller-manager", "--kubeconfig=" + self.path("controller-manager.conf"),
             "--leader-elect=false", "--service-account-private-key-file=" + key("sa.key"),
             "--root-ca-file=" + key("ca.crt"), "--use-service-account-credentials",
             "--cert-dir=/run/controller", gates],
            ["kube-scheduler", "--kubeconfig=" + self.path("scheduler.conf"), "--leader-elect=false",
             gates],
            ["kubelet", "--kubeconfig=" + self.path("kubelet.conf"),
             "--config=" + self.path("kubelet.yaml"), "--root-dir=" + self.path("kubelet"),
             "--cert-dir=" + self.path("kubelet-keys"), "--node-ip=" + ADDRESS,
             "--hostname-override=" + NODE, "--container-runtime-endpoint=unix://" + SOCKET,
             "--container-runtime=remote", "--seccomp-profile-root=" + self.path("kubelet/seccomp"),
             gates],
            ["kube-proxy", "--kubeconfig=" + self.path("proxy.conf"), "--cluster-cidr=" + PODS,
             "--hostname-override=" + NODE, "--conntrack-max-per-core=0",
             "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0"],
        ]
