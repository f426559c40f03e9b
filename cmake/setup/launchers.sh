# Launchers and servers that tests start clusters with, for the dev script: Slurm,
# Open MPI, sshd, and a certificate authority; and what reads files for clusters that
# are not here, such as manifests of Kubernetes. Nothing that Troupe's users run
# needs them, so only CI installs them unasked. Tests need none of them as a service
# of the system: they start what they need, from a folder of their own.

launcher_packages() {
  case $family in
    apt) printf '%s\n' slurmctld slurmd slurm-client munge openmpi-bin openssh-server easy-rsa systemd ;;
    dnf) printf '%s\n' slurm-slurmctld slurm-slurmd slurm munge openmpi openssh-server easy-rsa systemd ;;
  esac
}

validators_folder=validators-1

downloads+='
KUBERNETES_VALIDATE kubernetes_validate-1.37.0-py3-none-any.whl 85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9 pip:kubernetes-validate==1.37.0
PYYAML pyyaml-6.0.4-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl 622aa875fa6533f25fedcffe23079357d65a690d462200afed5d8e9d0e01ebee pip:pyyaml==6.0.4
JSONSCHEMA jsonschema-4.26.0-py3-none-any.whl d489f15263b8d200f8387e64b4c3a75f06629559fb73deb8fdfb525f2dab50ce pip:jsonschema==4.26.0
JSONSCHEMA_SPECIFICATIONS jsonschema_specifications-2025.9.1-py3-none-any.whl 98802fee3a11ee76ecaca44429fda8a41bff98b00a0f2838151b113f210cc6fe pip:jsonschema-specifications==2025.9.1
REFERENCING referencing-0.37.0-py3-none-any.whl 381329a9f99628c9069361716891d34ad94af76e461dcb0335825aecc7692231 pip:referencing==0.37.0
RPDS_PY rpds_py-2026.9.1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl 136a1c3fe4402b7008bc81cb62ee538481795b61a7e83df88dff3b3f02b726ff pip:rpds-py==2026.9.1
ATTRS attrs-26.1.0-py3-none-any.whl c647aa4a12dfbad9333ca4e71fe62ddc36f4e63b2d260a37a8b83d2f043ac309 pip:attrs==26.1.0
PACKAGING packaging-26.4-py3-none-any.whl 81383611a09c1bc0b08b76e0fd5829d7c6824c65b27a6aee339da133f4233ea2 pip:packaging==26.4
IMPORTLIB_RESOURCES importlib_resources-7.1.0-py3-none-any.whl 1bd7b48b4088eddb2cd16382150bb515af0bd2c70128194392725f82ad2c96a1 pip:importlib-resources==7.1.0
'

validators_only=(KUBERNETES_VALIDATE PYYAML JSONSCHEMA JSONSCHEMA_SPECIFICATIONS
  REFERENCING RPDS_PY ATTRS PACKAGING IMPORTLIB_RESOURCES)

# A Python that reads YAML and knows the schemas of Kubernetes.
unpack_validators() { # WORK FOLDER
  local work=$1 python name
  python=$(python_for_parity)
  [[ $python ]] || {
    problem "there is no Python $torch_python here, for which the wheels are"
    return 1
  }
  "$python" -m venv --without-pip "$work"
  for name in "${validators_only[@]}" TYPING_EXTENSIONS; do
    unzip -q -o "$(fetch "$work" "$name")" -d "$work/lib/python$torch_python/site-packages"
  done
  "$work/bin/python" -c 'import kubernetes_validate'
}
