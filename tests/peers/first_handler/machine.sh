# Runs a command on a machine with Node, Python and little else: a root folder into which only what they need is mounted,
# at the paths that it has here. Where namespaces are not allowed, the command sees this machine's files, but its PATH is
# the same.
#   sh machine.sh online|offline FOLDER CACHE COMMAND…
set -eu
network=$1 folder=$2 cache=$3
shift 3

real() { readlink -f "$(command -v "$1")"; }

node=$(real node)
npm=$(real npm)
python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
modules=$(python3 -c '
import os, pip, sysconfig
paths = sysconfig.get_paths()
print(os.path.dirname(pip.__path__[0]), *(paths[it] for it in ("stdlib", "platstdlib", "purelib", "platlib")))')
mkdir -p "$folder/bin" "$folder/home" "$folder/root" "$cache"
for program in node:"$node" npm:"$npm" python3:"$python" env:/usr/bin/env sh:/bin/sh; do
    # A test may have removed one.
    [ -e "$folder/ready" ] || ln -s "${program#*:}" "$folder/bin/${program%%:*}"
done
touch "$folder/ready"

# Root of this machine stays root, so that a host can give its cells another user.
isolate="unshare --mount"
[ "$(id -u)" = 0 ] || isolate="$isolate --map-root-user"
[ "$network" = online ] || isolate="$isolate --net"
if ! $isolate true 2> /dev/null; then
    echo "machine.sh: not isolated" >&2
    exec "$@"
fi

packages=$(dirname "$(dirname "$(dirname "$npm")")")
libraries=$(ldd "$node" "$python" /bin/sh /usr/bin/env | grep -o ' /[^ ]*' | xargs -n 1 dirname | sort -u)
export folder
export paths="/bin/sh /dev /etc /lib64 /proc /usr/bin/env $node $packages $python $modules $libraries $cache $folder/bin $folder/home"
exec $isolate sh -euc '
    for path in $paths; do
        place=$folder/root$path
        if [ -d "$path" ]; then
            mkdir -p "$place"
        elif [ -e "$path" ]; then
            mkdir -p "$(dirname "$place")" && touch "$place"
        else
            continue
        fi
        mount --rbind "$path" "$place"
    done
    mkdir -p "$folder/root/tmp"
    unset paths
    exec chroot "$folder/root" "$@"' isolated "$@"
