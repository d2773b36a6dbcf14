package convert

import "initbox/cmd/kubectl-initbox/convert/shell"

// download is a file in the container's own file system that a fetch would write.
type download struct {
	call *shell.Call
	step Step // its last argument is missing
	url  string
	used bool // by what unpacks or moves it
}

// notDownloads returns the places without those of downloads that were used, which no longer exist.
func (k *files) notDownloads(all []location) []location {
	var rest []location
	for _, p := range all {
		if d := k.downloads[p.value]; d == nil || !d.used {
			rest = append(rest, p)
		}
	}
	return rest
}

// placeDownload returns the step that downloads to where the file is wanted.
func (k *files) placeDownload(d *download, to location) ([]Step, error) {
	d.used = true
	s := d.step
	s.Args = append(append([]string{}, s.Args...), to.text)
	k.made(to, file)
	return []Step{s}, nil
}
