# Runs a script in an empty sandbox, and prints the commands that it would have run.
#
# Standard input: the script; arguments: its arguments; FALAJ_STAND_INS: the programs that record
# their commands. This is the first process of new namespaces. The script sees the system's programs
# and libraries, read-only, and no network.
#
# Prints the script's exit status and its number of pauses in a line, its first message in the next
# one, and then the commands.
set -e
PATH=/usr/sbin:/usr/bin:/sbin:/bin

mount -t tmpfs -o size=64m,mode=755 none /tmp
cd /tmp
mkdir dev etc old proc record run stand-ins tmp
mount -t proc none proc

for directory in usr bin sbin lib lib32 lib64 libx32; do
    if [ -L "/$directory" ]; then
        cp -P "/$directory" "$directory"
    elif [ -d "/$directory" ]; then
        mkdir "$directory"
        mount --rbind "/$directory" "$directory"
        mount -o remount,bind,ro "$directory"
    fi
done
for file in null zero full urandom; do
    : > "dev/$file"
    mount --bind "/dev/$file" "dev/$file"
done
for file in alternatives ld.so.cache; do
    if [ -e "/etc/$file" ]; then
        cp -dR "/etc/$file" etc/
    fi
done

cat > stand-ins/recorder <<'END'
#!/bin/sh
# Appends its command to the record, as a line of a script.
line=
for word in "${0##*/}" "$@"; do
    case $word in
        '' | *[!A-Za-z0-9_./:,%@+=-]*)
            word="'$(printf %s "$word" | /usr/bin/sed "s/'/'\\\\''/g")'" ;;
    esac
    line="$line $word"
done
printf '%s\n' "${line# }" >> /record/commands
case ${0##*/} in
    sleep | usleep)
        # A script that never ends is killed at this number of pauses.
        echo >> /record/pauses
        if [ "$(/usr/bin/wc -l < /record/pauses)" -ge 1000 ]; then
            kill -KILL -1
        fi ;;
    iptables* | ip6tables*)
        # There are no rules and chains yet: a script that looks for one adds it.
        case " $* " in *' -C '* | *' --check '* | *' -L '* | *' -S '*) exit 1 ;; esac ;;
    pfctl)
        case " $* " in *' -f - '*) /usr/bin/cat >> /record/commands ;; esac ;;
esac
END
cat > stand-ins/sudo <<'END'
#!/bin/sh
while :; do
    case $1 in
        -u | -g) shift 2 ;;
        -*) shift ;;
        *) exec "$@" ;;
    esac
done
END
chmod 755 stand-ins/recorder stand-ins/sudo
for name in $FALAJ_STAND_INS; do
    ln -s recorder "stand-ins/$name"
done
mount --bind stand-ins stand-ins
mount -o remount,bind,ro stand-ins
for name in sudo $FALAJ_STAND_INS; do
    for directory in usr/sbin usr/bin sbin bin; do
        if [ -e "$directory/$name" ] && [ ! -L "$directory" ]; then
            mount --bind "stand-ins/$name" "$directory/$name"
            mount -o remount,bind,ro "$directory/$name"
        fi
    done
done

cat > record/script
chmod 755 record/script
: > record/commands
: > record/pauses
: > record/errors

pivot_root . old
cd /
umount -l /old
export PATH=/stand-ins:/usr/local/sbin:/usr/local/bin:$PATH HOME=/tmp
case $(head -c 2 /record/script) in '#!') run= ;; *) run=sh ;; esac
set +e
# In this second pair of namespaces the script cannot make the mounts writable.
timeout --kill-after=1 10 prlimit --nproc=256 --fsize=16777216 --as=2147483648 \
    unshare --user --map-root-user --mount $run /record/script "$@" \
    < /dev/null > /dev/null 2> /record/errors
status=$?
printf '%s %s\n' "$status" "$(wc -l < /record/pauses)"
printf '%s\n' "$(head -n 1 /record/errors)"
cat /record/commands
