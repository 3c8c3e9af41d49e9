# Functions for scripts that use Debian's packages. Source this file; the caller defines `say` and `stop`.

# Installs those of the given packages that are missing.
install_missing() {
    local package missing=()
    for package in "$@"; do
        dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]}"
    apt-get update -qq || stop "apt-get update failed; its message is above. Check the network"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
        stop "apt-get could not install ${missing[*]}; its message is above"
}

# Sets `release` and `mirror` to those of this machine, and `http_proxy` to the proxy that apt uses, for debootstrap.
find_mirror() {
    local proxy
    release=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
    mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk -v release="$release" '$1 == release && $2 == "main" { print $3; exit }')
    [ -n "$mirror" ] || stop "apt's configuration has no mirror for the component main of $release: add one to /etc/apt/sources.list"
    proxy=$(apt-config dump --format '%v' Acquire::http::Proxy)
    [ -z "$proxy" ] || export http_proxy=${http_proxy:-$proxy}
}
