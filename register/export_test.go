package register

import "time"

// SetAnswerWithin sets how long Keep, told to stop, waits for the answer to what registers.
func (r *Registration) SetAnswerWithin(d time.Duration) { r.answerWithin = d }
