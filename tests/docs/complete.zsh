#!/bin/zsh -f
# complete.zsh FOLDER LINE...: what zsh offers at the end of each line, one line of words for each, when the
# completions in FOLDER are installed. An interactive shell on a terminal of its own is asked; what it is about
# to add to its list is written down.
zmodload zsh/zpty
folder=$1
shift
offers=$folder/offers
zpty shell zsh -f -i

# Send a line, and read until the shell has carried it out.
run() {
    local text
    zpty -w shell "$1; print -r -- done=\$((41 + 1))"
    while zpty -r shell text; do [[ $text == *done=42* ]] && return; done
    exit 1
}

run "PS1= PS2= RPS1=; unsetopt zle; stty -echo"
run "fpath=($folder \$fpath); autoload -Uz compinit; compinit -u -D; LISTMAX=100000"
run "compadd() {
    local -a hits
    [[ \${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] || { builtin compadd -O hits \"\$@\"; print -rl -- \$hits >>$offers }
    builtin compadd \"\$@\"
}"
run "asked() { : >$offers; zle complete-word; BUFFER=; zle accept-line }; zle -N asked; bindkey '^X' asked"
run "setopt zle"
for line; do
    : >$offers
    zpty -w -n shell "$line"$'\x18'
    run :
    print -r -- ${(ou)"${(f@)$(<$offers)}"}
done
zpty -d shell
