# Launchers and servers that tests start clusters with, for the dev script: Slurm,
# Open MPI, sshd, and a certificate authority. Nothing that Troupe's users run
# needs them, so only CI installs them unasked. Tests need none of them as a service
# of the system: they start what they need, from a folder of their own.

launcher_packages() {
  case $family in
    apt) printf '%s\n' slurmctld slurmd slurm-client munge openmpi-bin openssh-server easy-rsa ;;
    dnf) printf '%s\n' slurm-slurmctld slurm-slurmd slurm munge openmpi openssh-server easy-rsa ;;
  esac
}
